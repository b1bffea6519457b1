#!/usr/bin/env bash
# Somebody installs what was built, and removes it.
source "$(dirname "$0")/journey.bash"

instead '~/' "$directory/"
page docs/installing.md "From source"
page docs/installing.md "Into a folder"
expect grep -q '^version *[0-9]' output
expect test -s phalanx-installed/share/man/man1/phalanx-pretrain-gpt.1.gz
xargs -r rm <build/release/install_manifest.txt
expect test -z "$(find phalanx-installed -type f)"
