"""Files that make other programs run code: the one list of them.

A program reads such a file without being told to: Git its configuration, a shell its start file, a test
runner its plugins, an editor its tasks. So writing one needs the consent of a person. The list cannot be
complete: it holds what common tools read by themselves. Source files are not on it; running them is what
needs consent.
"""

import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

FOLDERS: Final = (
    # version control; .git* is also .github with its workflows
    *(".git*", ".hg", ".svn", ".husky", ".circleci", ".buildkite", ".woodpecker"),
    # editors and development environments
    *(".vscode", ".idea", ".devcontainer", ".vim", ".emacs.d", ".zed", ".cursor", ".direnv", ".ipython"),
    # build tools and installed packages
    *(".yarn", ".cargo", ".mvn", ".mise", "node_modules", ".venv", "venv", "site-packages", "__pycache__"),
    # the settings of a user, and of agents
    *(".config", ".local", ".ssh", ".gnupg", ".docker", ".kube", ".aws", ".claude", ".codex", ".continue"),
)
"""Names of folders, in lower case, that protect all that is in them. See `fnmatch`."""

FILES: Final = (
    # shells, and what they start by themselves
    *(".bash*", ".zsh*", ".zprofile", ".zlogin", ".zlogout", ".profile", ".kshrc", ".cshrc", ".tcshrc"),
    *(".login", ".logout", ".inputrc", ".envrc", ".env", ".env.*", ".tmux.conf", ".screenrc", ".xinitrc"),
    # editors, debuggers, interpreters
    *("*.code-workspace", ".devcontainer.json", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs"),
    *(".dir-locals.el", ".gdbinit", ".lldbinit", ".pdbrc", ".pythonrc*", ".irbrc", ".pryrc", ".rprofile"),
    # Python
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "setup.py", "setup.cfg"),
    *("pyproject.toml", "pytest.ini", "tox.ini", "noxfile.py", "tasks.py", "fabfile.py", ".coveragerc"),
    *("pip.conf", "pylintrc", ".pylintrc", ".pypirc", "mypy.ini", ".mypy.ini", ".flake8", "pyvenv.cfg"),
    # JavaScript
    *("package.json", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", "pnpm-workspace.yaml", ".pnp.*", "bunfig.toml"),
    *("deno.json*", "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "*.config.cts"),
    *("*.config.mts", ".eslintrc*", ".prettierrc*", ".babelrc*", ".mocharc*", ".swcrc", "gulpfile.*"),
    "gruntfile.*",
    # build tools and task runners
    *("makefile*", "gnumakefile", "*.mk", "cmakelists.txt", "*.cmake", "configure", "meson.build"),
    *("sconstruct", "sconscript", "build.ninja", "build", "build.bazel", "workspace", "workspace.bazel"),
    *(".bazelrc", "*.bzl", "justfile", ".justfile", "taskfile*", "rakefile", "gemfile*", "*.gemspec"),
    *("cargo.toml", "build.rs", "rust-toolchain*", "go.mod", "go.work", "*.gradle", "*.gradle.kts"),
    *("gradle.properties", "gradlew*", "mvnw*", "pom.xml", "build.xml", "build.sbt", "*.csproj", "*.vbproj"),
    *("*.fsproj", "*.targets", "*.props", "composer.json", "mix.exs", "dune", "*.cabal", "stack.yaml"),
    *("flake.nix", "shell.nix", "default.nix", ".tool-versions", "mise.toml", ".mise.toml"),
    # hooks, automation, containers
    *(".pre-commit-config.yaml", "lefthook*", ".lefthook*", ".overcommit.yml", ".hgrc", ".woodpecker.y*ml"),
    *(".drone.yml", "jenkinsfile*", "azure-pipelines.yml", ".travis.yml", "dockerfile*", "containerfile*"),
    *("compose.y*ml", "docker-compose*", "vagrantfile", "tiltfile", "skaffold.yaml", "procfile*"),
    *("*.service", "*.timer", "*.socket", "*.desktop", "crontab"),
    # the settings of a user, and of agents
    *(".netrc", ".curlrc", ".wgetrc", ".psqlrc", ".sqliterc", ".my.cnf", ".ackrc", ".lessfilter", ".mailcap"),
    *("windlass.toml", ".mcp.json", "mcp.json", ".claude.json", ".aider*"),
)
"""Names of files, in lower case. See `fnmatch`."""


def plain_name(name: str) -> str:
    """Return a name as the most lenient file system reads it.

    Case, compatibility characters, invisible characters, streams of NTFS, and dots and blanks at the end make
    no difference there.
    """
    plain = "".join(
        char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf"
    )
    return plain.casefold().partition(":")[0].rstrip(" .")


def is_protected(parts: Sequence[str]) -> bool:
    """Whether a path, given by its names, is that of a file that makes other programs run code."""
    names = [plain_name(part) for part in parts]
    return any(_is_on(FOLDERS, name) for name in names) or _is_on(FILES, names[-1] if names else "")


def names_protected(path: str) -> bool:
    """Whether a path, as a model writes it, names such a file."""
    return is_protected([part for part in path.split("/") if part not in ("", ".", "..")])


def _is_on(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
