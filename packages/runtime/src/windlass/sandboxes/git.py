"""git as commands get it: its reads run no program, and show no file, that a repository names."""

import shutil
from typing import Final

_SCRIPT: Final = """\
#!{bash}
# git whose reads run none of the programs that a repository can name in its settings: no diff program, text
# conversion, filter or hook, nothing in the folder of a submodule, and nothing that fetches missing objects.
before=()
while [ $# -gt 0 ]; do
  case "$1" in
    -C | -c | --git-dir | --work-tree | --namespace | --config-env) before+=("$1" "$2"); shift; shift ;;
    -*) before+=("$1"); shift ;;
    *) break ;;
  esac
done
options=()
case "${{1-}}" in
  diff | diff-index | diff-files) options=(--no-ext-diff --no-textconv --ignore-submodules=dirty) ;;
  log | show | whatchanged | diff-tree) options=(--no-ext-diff --no-textconv) ;;
  blame | annotate) options=(--no-textconv) ;;
  status) options=(--ignore-submodules=dirty) ;;
  branch | tag)
    # Since git 2.43 a signature is checked to sort by it, and no later setting takes such a key back.
    case "$({git} "${{before[@]}}" config --get-all "$1.sort")" in *signature*) options=(--no-sort) ;; esac ;;
  cat-file | check-ignore | count-objects | describe | for-each-ref | grep | ls-files | ls-tree) ;;
  merge-base | name-rev | reflog | rev-list | rev-parse | shortlog | show-ref) ;;
  *) exec {git} "${{before[@]}}" "$@" ;;
esac
export GIT_ALLOW_PROTOCOL=none
# A note or a replacement shows any object as a part of a commit.
export GIT_NO_REPLACE_OBJECTS=1 GIT_NOTES_REF=refs/notes/none-are-shown GIT_NOTES_DISPLAY_REF=
case "$1" in blame | annotate)
  # No later setting takes such a file back, and git shows a line of it that is not the name of a commit.
  top=$({git} "${{before[@]}}" rev-parse --show-toplevel)
  while IFS= read -r -d "" file; do
    if [ "$file" != .git-blame-ignore-revs ] || [ -L "$top/$file" ]; then
      printf "%s\\n" "git: blame.ignoreRevsFile may only be the file .git-blame-ignore-revs" >&2
      exit 128
    fi
  done < <({git} "${{before[@]}}" config -z --get-all blame.ignoreRevsFile) ;;
esac
programs="^(filter[.].*[.](clean|smudge|process|required)|hook[.].*[.]event)$"
count=${{GIT_CONFIG_COUNT:-0}}
while IFS= read -r -d "" key; do
  export "GIT_CONFIG_KEY_$count=$key" "GIT_CONFIG_VALUE_$count="
  count=$((count + 1))
done < <({git} "${{before[@]}}" config -z --name-only --get-regexp "$programs")
export GIT_CONFIG_COUNT=$count
subcommand=$1
shift
exec {git} "${{before[@]}}" "$subcommand" "${{options[@]}}" "$@"
"""


def git_script(bash: str, path: str) -> str | None:
    """Return a script to be called git, before the git of a search path; None if there is none."""
    git = shutil.which("git", path=path)
    return None if git is None else _SCRIPT.format(bash=bash, git=git)
