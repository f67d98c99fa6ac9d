"""Makes a release and checks it: everything but publishing. See CONTRIBUTING.md.

`artefacts` makes the files (`make release VERSION=…`), `check` installs them into empty environments and
projects (`make release-check`), `hints` judges what texts tell people to install.
"""
