#!/bin/sh
# Installs this repository, or the wheels of a release beside it, into a folder: the steps of the image, for any machine.
# Usage: sh deploy/install.sh FOLDER
set -eu
target=$1
python3 -m venv "$target"
# All packages of others, by version and hash: what is tested is what is installed.
"$target/bin/pip" install -q --disable-pip-version-check --require-hashes -r requirements/image.txt
wheels=wheels
if [ ! -d wheels ]; then
    wheels="$target/wheels"
    for package in protocol harness runtime server sidecar cli; do
        "$target/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$wheels" "packages/$package"
    done
fi
# Our own come from the folder alone; no package index is asked for them.
"$target/bin/pip" install -q --disable-pip-version-check --no-index --no-deps --find-links "$wheels" \
    windlass-protocol windlass-harness windlass-runtime windlass-server windlass-sidecar windlass-cli
rm -rf "$target/wheels"
"$target/bin/pip" check --disable-pip-version-check
"$target/bin/windlass" --version
