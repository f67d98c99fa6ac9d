"""The programs of the safe language: for each one, exact option spellings and kinds of operands.

Literal data only, taken from the manual of each program (GNU coreutils, findutils, grep and diffutils;
util-linux; ripgrep; jq; git). An option that writes, runs, connects or waits is not here.

Grammar of an option list:

| entry | accepted words |
|---|---|
| `--all` | this word |
| `+ahl` | `-a`, `-h`, `-l`, and these letters together after one dash, in any order: `-lah` |
| `-n=N`, `--lines=N` | `-n 5`, `-n5`; `--lines 5`, `--lines=5`: the value is required, and of kind N |
| `-U:N`, `--unified:N` | `-U5`; `--unified=5`: the value is optional, so only the attached form is exact |
| `-I@T` | `-I build`: the value is the next word only |
| `-#` | `-5` |

Operands are kinds in order; `*` after the last one repeats it, and without operands there may be none.
"""

from typing import Final

_BRACKETS: Final = r"\[(?!\^?\])(?:[^\]\[/\\]|\[:[a-z]+:\])+\]"
"""No slash within brackets, and no bracket that is one of their characters: programs differ on where a
pattern with them ends, and what follows it would be code."""
_SED_PATTERN: Final = rf"/(?:[^/\\\[]|\\.|{_BRACKETS})*/"
_SED_ADDRESS: Final = rf"(?:[0-9]{{1,9}}|\$|{_SED_PATTERN})"
_SED: Final = (
    rf"(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)? ?"
    rf"(?:[pdq=]|s{_SED_PATTERN}(?:[^/\\]|\\.)*/[gIip0-9]{{0,4}})"
)
_AWK_LENGTH: Final = r"length(?:\(\$[0-9]{1,4}\))?"
_AWK_FIELD: Final = rf"(?:\$(?:[0-9]{{1,4}}|NF)(?: [*/+] [0-9]{{1,9}})?|NR|FNR|NF|{_AWK_LENGTH}|\"[^\"\\]*\")"
_AWK_PATTERN: Final = rf"/(?:[^/\\\[]|\\.|{_BRACKETS})+/"
_AWK_ATOM: Final = (
    rf"(?:(?:NR|FNR|NF|\$[0-9]{{1,4}}|{_AWK_LENGTH}) ?(?:[<>]=?|[=!]=) ?"
    r"(?:[0-9]{1,9}|\"[^\"\\]*\")|NF|!?[a-z]{1,8}\[\$[0-9]{1,4}\]\+\+"
    rf"|(?:\$[0-9]{{1,4}} ?!?~ ?|!)?{_AWK_PATTERN})"
)
_AWK_TEST: Final = rf"{_AWK_ATOM}(?: ?(?:&&|\|\||,) ?{_AWK_ATOM})*"
_AWK_PRINT: Final = rf"\{{ ?print(?: ?{_AWK_FIELD}(?:,? ?{_AWK_FIELD})*)?;? ?\}}"
_AWK_NUMBER: Final = r"(?:NR|FNR|NF|\$[0-9]{1,4}) ?(?:[<>]=?|[=!]=) ?(?:[0-9]{1,9}|\"[^\"\\]*\")"
_AWK_IF: Final = rf"\{{ ?if ?\({_AWK_NUMBER}\) ?print(?: {_AWK_FIELD}(?:,? ?{_AWK_FIELD})*)?;? ?\}}"
_AWK_COUNT: Final = (
    r"\{ ?(?P<name>[a-z]{1,8})\[\$(?:[0-9]{1,4}|NF)\] ?\+\+;? ?\} ?"
    r"END ?\{ ?for ?\((?P<key>[a-z]) in (?P=name)\) ?print "
    r"(?:(?P=key),? ?(?P=name)\[(?P=key)\]|(?P=name)\[(?P=key)\],? ?(?P=key));? ?\}"
)
"""How often each value of a field occurs."""
_AWK_NAME: Final = r"(?:sum|total|count|c|n|s|t|x|i|lines|bytes|size)"
_AWK_SUM: Final = (
    rf"(?:{_AWK_TEST} ?)?\{{ ?{_AWK_NAME} ?(?:\+\+|\+= ?\$[0-9]{{1,4}});? ?\}} ?"
    rf"END ?\{{ ?print {_AWK_NAME}(?: ?/ ?NR)? ?\}}"
)
"""Tests, fields and sums: no assignment of a field, no function but length, no output but print."""
JQ_WORDS: Final = frozenset(
    "keys length map select has type add sort sort_by group_by unique unique_by to_entries from_entries"
    " with_entries map_values first last min max min_by max_by flatten reverse test startswith endswith"
    " contains tostring tonumber join split ascii_downcase ascii_upcase not and or empty any all values null"
    " true false paths del tojson ltrimstr rtrimstr if then else elif end".split()
)
"""Functions of jq that see only what they are given: not env, input, import, halt_error or debug."""
JQ_TEXT: Final = r"\"(?:[^\"\\]|\\[nt]|\\\((?:\.[A-Za-z_][A-Za-z0-9_]*)+\))*\""
"""A text of jq, perhaps with fields in it."""
_JQ_WORD: Final = rf"(?:{'|'.join(sorted(JQ_WORDS))})(?![A-Za-z0-9_:])"
_JQ_TOKEN: Final = (
    r"(?:\.\.(?!\.)|\.(?:[A-Za-z_][A-Za-z0-9_]*(?![A-Za-z0-9_])|\"[^\"\\]*\")\??|\.(?![.A-Za-z_\"])\??"
    r"|\[|\]\??|\(|\)|\{|\}|\||,|:|;|//|[=!]=|[<>]=?|[-+]|[0-9]{1,9}(?:\.[0-9]{1,9})?(?![0-9.])"
    rf"|{JQ_TEXT}|{_JQ_WORD}|(?!{_JQ_WORD})[A-Za-z_][A-Za-z0-9_]*(?= ?[:,}}]))"
)
"""Each text has one reading, so that a search through it takes no longer than its length."""
_COLUMN: Final = (
    r"(?:pid|ppid|pgid|tid|uid|user|group|%cpu|pcpu|%mem|pmem|rss|vsz|etime|etimes|time|stat|state|tty|ni|nice|pri"
    r"|psr|lstart|start|comm|cmd|command|args|ucmd)"
)
KINDS: Final = {
    "N": r"[0-9]{1,9}",
    "COUNT": r"[-+]?[0-9]{1,9}[bkKMG]?",
    "SMALL": r"[0-9]{1,6}",
    "SECONDS": r"[0-9]{1,2}(?:\.[0-9]{1,3})?s?",
    "CHAR": r"[^\\]|\\[tn0]",
    "LIST": r"[0-9][0-9,-]{0,60}",
    "KEY": r"[0-9]{1,3}(?:\.[0-9]{1,3})?[bdfghiMnRrV]*(?:,[0-9]{1,3}(?:\.[0-9]{1,3})?[bdfghiMnRrV]*)?",
    "NAME": r"[A-Za-z0-9_][A-Za-z0-9_.+-]*",
    "WHEN": r"never|auto|always",
    "SED": rf"{_SED}(?:; ?{_SED})*",
    "AWK": rf"{_AWK_TEST}|(?:{_AWK_TEST} ?)?{_AWK_PRINT}|{_AWK_SUM}|{_AWK_IF}|{_AWK_COUNT}",
    "JQ": rf" ?(?:{_JQ_TOKEN} ?)+",
    "PS": r"(?:aux|ax|axu|x|u|ux)w{0,2}f?",
    "COLUMNS": rf"{_COLUMN}(?:,{_COLUMN})*",
    "GITKEY": r"user\.(?:name|email)",
    "PSSORT": r"-?(?:%cpu|%mem|pcpu|pmem|rss|vsz|pid|time|etime)",
    "YQ": r"\.|(?:\.[A-Za-z_][A-Za-z0-9_-]*|\.?\[[0-9]{0,9}\])+",
    # Not an archive: its files of credentials would be shown with all others.
    "PACKED": r"(?!.*(?:\.\.|\.[Tt][Aa][Rr]\.gz$))[A-Za-z0-9_][A-Za-z0-9_.+/-]*\.gz",
    "ARCHIVE": r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.+/-]*",
    "PRINTF": r"(?:[^%\\]|%%|%[-0]?[0-9]{0,3}[sd]|\\[nt\\])*",
    "EXPR": r"[0-9]{1,9}|[-+*/%]",
    # No `TZ="…"`, which names a file.
    "MOMENT": r"[A-Za-z0-9@+][A-Za-z0-9 ,.:/+-]*",
    "TIME": r"\+(?:[^%]|%[-_0]?[A-Za-z%])*",
    "AGE": r"[-+]?[0-9]{1,9}",
    "BLOCK": r"[0-9]{0,4}[kKMGTP]?",
    "SIZE": r"[-+]?[0-9]{1,9}[bcwkMG]?",
    "TYPE": r"[bcdflps](?:,[bcdflps])*",
    "PERM": r"[-/]?[0-7]{3,4}|[-/]?[ugoa]*[+=][rwx]+",
    "RANGE": r"[0-9]{1,9},\+?[0-9]{1,9}",
    "GITDATE": r"[a-z]+(?:-[a-z]+)*(?::[%A-Za-z0-9 :./_-]*)?",
    "PRETTY": r"(?:oneline|short)?|medium|full|fuller|reference|raw|t?format:(?:[^%]|%(?![-+ ]?[G(]))*"
    r"|(?=[^:]*%)(?:[^%:]|%(?![-+ ]?[G(]))(?:[^%]|%(?![-+ ]?[G(]))*",
    # No content, no address of a remote, no check of a signature.
    "REFS": r"(?:[^%]|%%|%\(\*?(?:refname|objectname|objecttype|objectsize|HEAD|subject|contents:subject"
    r"|(?:author|committer|tagger)(?:name|email|date)?|creator(?:date)?|upstream|push|worktreepath)"
    r"(?::[a-z]+(?:=[0-9]{1,3})?(?:,[a-z]+)*)?\))*",
    "FILTER": r"[ACDMRTUXBacdmrtuxb]{1,10}",
    "SORT": r"-?(?:refname|(?:v|version):refname|creatordate|committerdate|authordate|taggerdate|objectsize)",
}
"""Kinds of values by their form. More have rules in code: T is any text that does not begin with a dash,
W any text, GLOB a text that does not name a file of credentials, P a path that is read (a pattern of file
names may become several), F a path that stays one, G a path or revision of git."""

_GREP: Final = (
    "+acEFGhHiIlLnoPqrRsvwxyTz --recursive --line-number --ignore-case --no-ignore-case"
    " --files-with-matches"
    " --files-without-match --count --only-matching --invert-match --word-regexp --line-regexp"
    " --no-filename"
    " --with-filename --extended-regexp --fixed-strings --perl-regexp --basic-regexp --quiet --silent"
    " --no-messages --text --color --color:WHEN --colour:WHEN -e=T --regexp=T -A=N -B=N -C=N"
    " --after-context=N --before-context=N --context=N -m=N --max-count=N --include=GLOB --exclude=T"
    " --exclude-dir=T -#"
)
_TAR_LISTS: Final = "-tvzf -tzf -tzvf tzf tzvf".split()
"""With `z`: without it tar runs the program that the first bytes of the file ask for."""
_FD: Final = (
    "+aHIisgupF0 --hidden --no-ignore --absolute-path --glob --fixed-strings --ignore-case -e=NAME"
    " --extension=NAME -t=NAME --type=NAME -d=N --max-depth=N -E=T --exclude=T --color=WHEN"
)
PROGRAMS: Final = {
    "arch": ("", ""),
    "base64": ("-d --decode -w=N --wrap=N", "F"),
    "basename": ("", "T T"),
    "cat": (
        "+AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank",
        "P*",
    ),
    "cksum": ("", "P*"),
    "cmp": ("+bls --silent --quiet --verbose --print-bytes -n=N", "P P"),
    "column": ("-t -s=T", "P*"),
    "comm": ("+123 --check-order --nocheck-order", "P P"),
    "cut": (
        "-s --only-delimited --complement -d=CHAR --delimiter=CHAR -f=LIST --fields=LIST -c=LIST"
        " --characters=LIST"
        " -b=LIST --bytes=LIST --output-delimiter=T",
        "P*",
    ),
    "date": (
        "-u --utc --universal -I -Iseconds -Iminutes -R --rfc-email --iso-8601 -d=MOMENT --date=MOMENT",
        "TIME",
    ),
    "df": (
        "+ahHikmPT --human-readable --total --local --print-type --inodes --block-size:BLOCK",
        "P*",
    ),
    "diff": (
        "+abBdEiNpqrstuwy --brief --recursive --side-by-side --ignore-case --ignore-all-space"
        " --ignore-space-change"
        " --ignore-blank-lines --unified -U=N --unified:N -C=N -W=N --width=N --suppress-common-lines"
        " --minimal"
        " --text --no-dereference --color --color:WHEN -x=T --exclude=T",
        "P P",
    ),
    "dirname": ("", "T*"),
    "du": (
        "+abchkmsSx --all --human-readable --summarize --total --apparent-size --bytes --one-file-system"
        " --inodes"
        " -d=N --max-depth=N --block-size:BLOCK",
        "P*",
    ),
    "echo": ("", "W*"),
    "false": ("", ""),
    "file": ("+bih --brief --mime --mime-type --mime-encoding --no-dereference", "P*"),
    "fold": ("+bs -w=N --width=N", "P*"),
    "grep": (_GREP, "T P*"),
    "groups": ("", ""),
    "head": ("+qvz --quiet --silent --verbose -n=COUNT --lines=COUNT -c=COUNT --bytes=COUNT -#", "P*"),
    "hexdump": ("-C -n=N -s=N", "P*"),
    "hostname": ("", ""),
    "id": ("+gGnruz", ""),
    "join": ("-t=CHAR -1=N -2=N -a=N -v=N -i", "P P"),
    "jq": (
        "-r -n -c -M -C -S -s -e -j -a --raw-output --compact-output --sort-keys --slurp --tab --exit-status",
        "JQ P*",
    ),
    "ls": (
        "+aAbBcCdfFgGhiklmnNopqQrRsStuUvxX1 --all --almost-all --human-readable --recursive --reverse"
        " --directory"
        " --inode --size --full-time --group-directories-first --numeric-uid-gid --classify --color"
        " --color:WHEN"
        " --sort:NAME --time:NAME --time-style:NAME --format:NAME --block-size:BLOCK",
        "P*",
    ),
    "md5sum": ("-b -t --tag", "P*"),
    "nl": ("-b=NAME -w=N -s=T", "P*"),
    "nproc": ("--all", ""),
    "od": ("+abcdfiloxsv -A=NAME -t=NAME -N=N -j=N", "P*"),
    "paste": ("-s -d=T --delimiters=T", "P*"),
    "printf": ("", "PRINTF T*"),
    "pwd": ("-L -P", ""),
    "readlink": ("+efmnqsvz --canonicalize", "P*"),
    "realpath": ("+emqsz --canonicalize-existing --canonicalize-missing --no-symlinks", "P*"),
    "rev": ("", "P*"),
    "rg": (
        "+acFHiIlnNoPqsSUvwx --files --hidden --no-ignore --no-heading --heading --line-number"
        " --no-line-number"
        " --ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp --count --count-matches"
        " --files-with-matches --files-without-match --only-matching --invert-match --multiline --json"
        " --stats"
        " --no-filename --with-filename --column --trim --vimgrep -uu -e=T --regexp=T -g=GLOB --glob=GLOB"
        " --iglob=GLOB"
        " -t=NAME --type=NAME -T=NAME --type-not=NAME -A=N -B=N -C=N --after-context=N --before-context=N"
        " --context=N -m=N --max-count=N --max-depth=N --sort=NAME --color=WHEN",
        "T P*",
    ),
    "sed": ("+nEr --quiet --silent --regexp-extended -s -e=SED --expression=SED", "SED P*"),
    "seq": ("-w -s=T", "SMALL SMALL SMALL"),
    "sha1sum": ("-b -t --tag", "P*"),
    "sha256sum": ("-b -t --tag", "P*"),
    "sha512sum": ("-b -t --tag", "P*"),
    "sleep": ("", "SECONDS"),
    "sort": (
        "+bcdfghiMnrRsuVz --reverse --unique --numeric-sort --human-numeric-sort --version-sort --ignore-case"
        " --general-numeric-sort --month-sort --stable --check -k=KEY --key=KEY -t=CHAR"
        " --field-separator=CHAR",
        "P*",
    ),
    "ss": ("+46aeilmnopstuxH", ""),
    "stat": ("-t --terse -c=T --format=T", "P*"),
    "tail": ("+qvz --quiet --silent --verbose -n=COUNT --lines=COUNT -c=COUNT --bytes=COUNT -#", "P*"),
    "tr": ("+cCdst --delete --squeeze-repeats --complement", "T T"),
    "tree": (
        "+aAdDfFhiNpqrsStUv --dirsfirst --noreport --du --prune --gitignore -L@N -I@GLOB -P@GLOB"
        " --filelimit@N",
        "P*",
    ),
    "true": ("", ""),
    "type": ("+afptP", "NAME*"),
    "uname": ("+amnoprsv", ""),
    "uniq": ("+cdDiuz --count --repeated --unique --ignore-case -f=N -s=N -w=N", "F"),
    "uptime": ("-p -s", ""),
    "wc": ("+clLmw --lines --words --bytes --chars --max-line-length", "P*"),
    "which": ("-a", "NAME*"),
    "whoami": ("", ""),
    "awk": ("-F=T", "AWK P*"),
    ":": ("", ""),
    "expr": ("", "EXPR*"),
    "cal": ("-3 -1 -y -m", "N N"),
    "command -v": ("", "NAME*"),
    "egrep": (_GREP, "T P*"),
    **dict.fromkeys(("fd", "fdfind"), (_FD, "T P*")),
    "fgrep": (_GREP, "T P*"),
    "free": ("+bkmghtw", ""),
    "getconf": ("", "NAME"),
    "locale": ("-a", ""),
    "lsblk": ("+abfm", ""),
    "lscpu": ("", ""),
    "numfmt": ("--to=NAME --from=NAME", "N*"),
    "pgrep": ("+aflnoxc -u=NAME", "T"),
    "ps": (
        "-e -ef -A -a -f -F -l -x -w -ww -efww --forest -p=N -C=NAME -u=NAME -U=NAME -o=COLUMNS -eo=COLUMNS"
        " -Ao=COLUMNS --sort:PSSORT --no-headers --ppid=N",
        "PS",
    ),
    "strings": ("-a -n=N", "P*"),
    "tac": ("", "P*"),
    **dict.fromkeys((f"tar {word}" for word in _TAR_LISTS), ("", "ARCHIVE")),
    "tty": ("-s", ""),
    "xxd": ("+bpuei -l=N -s=N -c=N -g=N", "F"),
    "yq": ("-r -c --raw-output --compact-output", "YQ P*"),
    "zcat": ("", "PACKED*"),
}
"""Options and operands. `uniq` and `base64` take one path: to `uniq` a second one is the output."""

VERSIONS: Final = {
    **dict.fromkeys(
        "bash cc clang cmake curl docker g++ gcc make mypy ruff sqlite3 uv".split(), ("--version",)
    ),
    **dict.fromkeys("node npm ruby".split(), ("-v", "--version")),
    **dict.fromkeys("cargo pip pip3 python python3 rustc".split(), ("-V", "--version")),
    "go": ("version",),
}
"""Programs that may only say their version: the single word that asks for it. They run outside of the folder
and with an empty home, because a version manager runs, fetches or shows what a file of the folder names
(`.python-version`), and cargo and go do so by themselves. Those that may fetch anyway, such as yarn and pnpm,
are not here."""

GREPS: Final = frozenset(("grep", "egrep", "fgrep"))

HARMLESS: Final = frozenset(
    "cat cksum cut du grep head ls md5sum nl sha1sum sha256sum sha512sum stat tac wc".split()
)
"""Programs of which no option writes, runs, connects or waits, listed here or not: a file may have the name
of an option, and a pattern that begins with `*` may match it."""
NAMES_ONLY: Final = frozenset("cd du fd fdfind find ls readlink realpath stat tree".split()) | {"git -C"}
"""Programs that show names and sizes of files, and open none: a link is shown, and not followed."""

LOCATORS: Final = frozenset(("command", "type", "which"))
"""Programs that say where others are."""

OPTIONS_FIRST: Final = frozenset({"xxd", "git config"})
"""Programs to which any word after the operand is a file or a value to write."""

PATTERN_OPTIONS: Final = {
    "egrep": ("-e", "--regexp"),
    "fgrep": ("-e", "--regexp"),
    "sed": ("-e", "--expression"),
    "grep": ("-e", "--regexp"),
    "rg": ("-e", "--regexp", "--files"),
    "git grep": ("-e",),
}
"""Options that take the place of the first operand."""

_DIFF: Final = (
    " -p --patch -u -s --no-patch --raw --stat --numstat --shortstat --dirstat --summary --name-only"
    " --name-status"
    " -b -w -R -a -z -M -C --cached --staged --check --color --no-color --color:WHEN --word-diff"
    " --color-words"
    " --word-diff:NAME --minimal --patience --histogram --ignore-all-space --ignore-space-change"
    " --ignore-blank-lines --ignore-space-at-eol --find-renames --no-renames --full-index --abbrev --abbrev:N"
    " --exit-code --quiet --no-ext-diff --no-textconv --no-prefix --relative -W --function-context"
    " -U:N --unified:N --diff-filter:FILTER -S=T -G=T --pickaxe-regex --pickaxe-all --merge-base"
)
_LOG: Final = (
    f"{_DIFF} -# -n=N --max-count=N --skip=N --oneline --graph --decorate"
    " --no-decorate --decorate:NAME --since=T --after=T --until=T --before=T --author=T --committer=T"
    " --grep=T -i -E"
    " -F --all-match --invert-grep --reverse --merges --no-merges --first-parent --abbrev-commit"
    " --no-abbrev-commit"
    " --follow --topo-order --date-order --date=GITDATE --format:PRETTY --pretty --pretty:PRETTY --left-right"
    " --cherry-pick --no-walk --no-notes --full-history --relative-date -m -c --cc"
)
GIT: Final = {
    "blame": (
        "-l -s -w -e -t -f -n -M -C -c --show-name --show-number --show-email --porcelain --line-porcelain"
        " --date:GITDATE --root --no-progress -L=RANGE",
        "G*",
    ),
    "branch": (
        "-a -r -v -vv -av -avv -rv --all --remotes --list --verbose --show-current --no-color --no-column"
        " --sort:SORT --merged --no-merged --format:REFS",
        "",
    ),
    "branch --contains": ("-a -r", "G"),
    "branch --list": ("-a -r -v -vv --sort:SORT --format:REFS", "T*"),
    "branch --merged": ("-a -r", "G"),
    "branch --no-merged": ("-a -r", "G"),
    "config": ("--get --get-all --bool --int", "GITKEY"),
    "cat-file": ("-t -s -e -p", "G"),
    "check-ignore": ("-v --verbose -n --non-matching -q --quiet", "G*"),
    "count-objects": ("-v -H -vH --verbose --human-readable", ""),
    "describe": ("--tags --always --all --long --exact-match --abbrev:N --first-parent", "G*"),
    "diff": (_DIFF, "G*"),
    "for-each-ref": ("--sort:SORT --count=N --format:REFS", "T*"),
    "grep": (
        "-n -i -l -L -c -w -v -E -F -P -G -I -h -H -q -o -p -W --cached --line-number --ignore-case"
        " --files-with-matches --name-only --count --word-regexp --extended-regexp --fixed-strings --break"
        " --heading"
        " --no-color --all-match --and --or --not -e=T -A=N -B=N -C=N --max-depth=N",
        "T G*",
    ),
    # Not of show: among all references there may be one to a file, which show prints without its name.
    "log": (f"{_LOG} --all --branches --tags --remotes", "G*"),
    "ls-files": (
        "-c -d -m -o -i -s -u -z -t -v --cached --deleted --modified --others --ignored --stage --unmerged"
        " --killed"
        " --exclude-standard --error-unmatch --full-name --directory --eol",
        "G*",
    ),
    "ls-tree": ("-r -t -l -d -z --long --name-only --name-status --full-name --full-tree", "G*"),
    "merge-base": ("-a --all --is-ancestor --fork-point --octopus", "G*"),
    "name-rev": ("--name-only --tags --always", "G*"),
    # Not its addresses, which may have a token in them; nor `reflog`, which has those of pulls.
    "remote": ("", ""),
    "rev-list": (
        "-# -n=N --max-count=N --count --all --since=T --until=T --author=T --no-merges --merges"
        " --first-parent"
        " --reverse --oneline --left-right --abbrev-commit --parents",
        "G*",
    ),
    "rev-parse": (
        "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir"
        " --is-inside-work-tree --is-bare-repository --is-shallow-repository --abbrev-ref"
        " --symbolic-full-name"
        " --symbolic --short --short:N --verify -q --quiet --all --branches --tags --remotes",
        "G*",
    ),
    "shortlog": (
        "-s -n -e -c -sn -ns -sne --summary --numbered --email --all --no-merges --since=T --until=T",
        "G*",
    ),
    "show": (_LOG, "G*"),
    "show-ref": ("--heads --tags --branches -d -q --quiet --verify --head --hash --abbrev", "G*"),
    "stash list": ("--oneline --stat --date:GITDATE", ""),
    "stash show": ("--stat --name-only --name-status", ""),
    "status": (
        "-s -b -sb -bs -z --short --branch --porcelain --porcelain:NAME --long --show-stash"
        " --ahead-behind --no-ahead-behind --ignored --ignored:NAME -u -uno -unormal -uall --untracked-files"
        " --untracked-files:NAME --column --no-column --renames --no-renames --ignore-submodules",
        "G*",
    ),
    "tag": ("-n --no-column --sort:SORT --format:REFS", ""),
    "tag -l": ("-n --no-column --sort:SORT --format:REFS", "T*"),
    "tag --list": ("-n --no-column --sort:SORT --format:REFS", "T*"),
    "version": ("", ""),
    "--version": ("", ""),
    "worktree list": ("--porcelain -v --verbose", ""),
}
"""Subcommands of git that only read, and their options. Those that write given an operand get none."""

GIT_GLOBAL: Final = frozenset({"--no-pager", "-P", "--no-optional-locks"})
"""Options of git itself, before the subcommand."""

FIND: Final = {
    **dict.fromkeys(
        "-empty -print -print0 -prune -quit -not -a -and -o -or -ls -readable -writable -executable -true"
        " -false"
        " -nouser -nogroup -daystart -mount -xdev -noleaf ! ( )".split(),
        "",
    ),
    **dict.fromkeys(
        "-name -iname -path -ipath -wholename -regex -iregex -lname -ilname -printf".split(), "T"
    ),
    **dict.fromkeys("-maxdepth -mindepth -inum -uid -gid".split(), "N"),
    **dict.fromkeys("-mtime -atime -ctime -mmin -amin -cmin -links".split(), "AGE"),
    **dict.fromkeys("-user -group -regextype".split(), "NAME"),
    "-type": "TYPE",
    "-xtype": "TYPE",
    "-size": "SIZE",
    "-perm": "PERM",
    "-newer": "F",
    "-anewer": "F",
    "-cnewer": "F",
    "-samefile": "F",
}
"""Expressions of find and the kind of their value; what runs, writes or deletes is not here."""

TEST_FILES: Final = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -k -u -g -O -G -N".split())
"""Operators of `test` and `[` on a file. `-v`, `-R` and `-o` evaluate names; connectives change what words
mean."""

CAUTIONS: Final = {
    "safe_write": "cp install ln mkdir mkfifo mktemp mv patch rmdir split tar tee touch unzip zip gzip"
    " gunzip bzip2 xz",
    "unknown/network": "aria2c curl dig ftp git-lfs host http nmap nslookup ping ssh traceroute wget whois",
    "unknown/install": "apk apt apt-get brew conda dnf gem mamba npm pip pip3 pipx pnpm poetry snap uv"
    " yarn yum",
    "unknown/exec": "bash bun cargo cmake composer dash deno docker env eval exec go gradle java just"
    " kotlin ksh lua"
    " make mvn node npx perl php podman pytest python python2 python3 ruby sh source . tox tsx vitest"
    " xargs zsh",
    "unknown/pager": "bat info less man more most",
    "unknown/editor": "ed emacs ex micro nano nvim pico vi vim",
}
"""Why a program that is not in the language is not: shown to people, of no effect on the grade."""
