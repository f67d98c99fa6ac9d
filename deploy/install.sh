#!/bin/sh
# Builds the wheels of this repository and installs them into a folder: the steps of the image, for any machine.
# Usage: sh deploy/install.sh FOLDER
set -eu
target=$1
python3 -m venv "$target"
# The versions that the tests run with; a later one comes with the next change of requirements/dev.txt.
sed -nE 's/^([A-Za-z0-9._-]+)(\[[^]]*\])?==([^ ;\\]+).*/\1==\3/p' requirements/dev.txt > "$target/constraints.txt"
export PIP_CONSTRAINT="$target/constraints.txt"
"$target/bin/pip" install -q --disable-pip-version-check hatchling
for package in protocol harness runtime server sidecar cli; do
    "$target/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$target/wheels" "packages/$package"
done
# First our own, so that none of them is looked for in a package index.
"$target/bin/pip" install -q --disable-pip-version-check --no-deps "$target"/wheels/*.whl
"$target/bin/pip" install -q --disable-pip-version-check windlass-server windlass-sidecar windlass-cli \
    "windlass[postgres,temporal,otel,anthropic,openai]"
rm -rf "$target/wheels"
"$target/bin/windlass" --version
