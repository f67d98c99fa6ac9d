"""The safe language: what is in it, and that a step beyond it is caution."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.harness.shell.safe_runs import safe_commands

from windlass_harness.shell import classify_shell_command, programs
from windlass_harness.shell.parser import NotLiteral, parse_literal
from windlass_harness.shell.referee import agrees

SHFMT = Path(sys.executable).parent / "shfmt"

SAFE = r"""
ls
ls -la src
ls -l --color=never src 2>/dev/null
cat -n src/app.py | head -20
cat a.txt 'b c.txt' "d e.txt" f\ g.txt
head -n 5 a.txt && tail -n +3 b.txt || echo none; pwd
head -n5 -q a.txt
head --lines 5 a.txt
head --lines=5 a.txt
tail -20 log.txt
wc -l src/*.py
wc -l ./*.py
grep -rn 'foo.*(bar)' src --include='*.py'
grep -rn foo --include=*.py --exclude=*_test.py src
grep -e one -e two a.txt
grep -A 3 -B3 one a.txt
grep -5 one a.txt
grep "a\"b" a.txt
grep -E '^(a|b)$' a.txt > /dev/null 2>&1
rg -n 'foo' -g '!.env' -t py src
rg --files src
sort -t, -k2,2n a.csv | uniq -c | sort -rn
sort < names.txt
uniq -c names.txt
cut -d: -f1,3 a.txt
tr 'a-z' 'A-Z' < a.txt
tr -d '\r' < a.txt
diff -u a.txt b.txt
diff --color=never -y -W 120 a.txt b.txt
find . -name '*.py' -not -path './.venv/*' -type f
find src \( -name '*.py' -o -name '*.pyi' \) -size +10k -print0
find . ! -name x -maxdepth 2 -newer a.txt
find
sed -n '1,20p' a.txt
sed -n 5p a.txt
sed -n '$p' a.txt
awk '{print $1}' a.txt
awk -F, '{ print $2, $NF }' a.csv
awk '{print}' a.txt
jq . data.json
jq -r '.items[0].name' data.json
jq '.items[].name' data.json
[ -d src ] && ls src
[ ! -e dist ]
test -f Makefile
test -e ./x
echo "rm -rf /" '$(touch x)' -- --- -n
echo hi &>/dev/null
printf '%s: %d\n' a 1
date +%Y-%m-%d
date -u -Iseconds
tree -L 2 -I node_modules src
stat -c '%n %s' a.txt
du -sh src
cd src && ls
seq 1 10
sleep 1
which -a git
type ls
git status
git --no-pager log --oneline -5
git log --format='%h %an %s' -n 10 --since='2 weeks ago' -- src
git log --pretty=format:%h
git log --pretty=oneline -S needle
git diff HEAD~1 -- src/app.py
git diff -U10 --word-diff=plain main...HEAD
git show HEAD:src/app.py
git show HEAD^
git blame -L 1,10 src/app.py
git branch -a
git stash list
git rev-parse --abbrev-ref HEAD
git ls-files '*.py'
git grep -n 'one' -- docs
git grep -e one
git --version
cat README.md </dev/null
cat -
ls *
ls *.md
ls -- *
wc -l *.py
du -sh *
cat *.md
cat src/*.log
grep foo *.py
sha256sum *.py
git -C src status
git -C src -P log -1
cd src && git status
cd src; cd a || git -C b log -p; git show HEAD:a.txt
git config --get user.name
git config user.email
git remote
git branch --merged main
git branch --list 'x*'
git tag -l 'v*'
git for-each-ref --sort=-committerdate --count=5 refs/heads
git stash show --stat
git cat-file -p 'HEAD^{tree}'
jq '.a | keys' f.json
jq -r '.items[] | select(.price > 10) | .name' f.json
jq '.["a b"] // "none"' f.json
jq '{a: .b, c: (.d | length)}' f.json
jq -c '.items[] | {id, "n": .name, last: {a, env}}' f.json
jq '{a: 1, if}' f.json
jq -r '.scripts | to_entries[] | "\(.key): \(.value.a)\n"' f.json
yq .services a.yml
sed 's/a/b/g' f.txt
sed -e 's/^[ ]*//' -e '/^#/d' f.txt
sed -n '/start/,/end/p' f.txt
sed -n '10p;20q' f.txt
sed -nE 's/(a|b)c/\1/p' f.txt
awk 'NR==1' f.txt
awk 'NR>=10 && NR<=20 {print $1, $NF}' f.txt
awk -F: '$3 > 100 {print $1}' f.txt
awk '/foo|bar/ {print $0}' f.txt
awk '{sum += $2} END {print sum/NR}' f.txt
awk 'length > 80' f.txt
ps aux | grep python
ps -ef
ps -eo pid,cmd --sort=-%mem
ps -p 1 -o pid,args
pgrep -af server
python -V
python3 --version
node -v
make --version
pip --version
cargo --version
go version
git log --since yesterday --author ada --grep 'fix it' --max-count 5 --date iso
git for-each-ref --format='%(refname:short) %(committerdate:relative)' refs/heads
git branch --format='%(refname:short) %(upstream)'
git tag -l --format='%(objectname:short=8) %(contents:subject)'
git show abc1234:src/app.py
awk NF f.txt
awk '/a/,/b/' f.txt
awk '!seen[$0]++' f.txt
awk '{ print length($0), length }' f.txt
command -v git
egrep 'a|b' f.txt
xxd -l 16 f.bin
strings -n 8 f.bin
tar -tzf a.tgz
fd -e py . src
diff -ru --exclude=node_modules src docs
free -h
"""

NOT_SAFE = r"""
ls; ;
;ls
ls &&
| ls
ls |
ls | | wc
ls & pwd
x=1
x=1 ls
"ls"
l\s
/bin/ls
[ls] a
ls a#b~c ~
ls x=~
ls ~
ls a"~"b'' ''~
ls ''!
ls !x
ls $x
ls "$x"
ls `pwd`
ls $(pwd)
cat <<E
cat <
cat < /etc/passwd
cat < *.txt
cat < .env
cat <> a.txt
cat >a.txt
ls 3>/dev/null
ls 2>&3
ls 2>/dev/null src
ls 'a
ls "a
ls \
ls a>b
ls ?.py
ls [a]*
sort *
sort *.txt
file *
jq '"x" * 999999999' f.json
tail *
find *
cat *
cat *.json
cat ./i*
cat src/*
cat s*/x
cat src/*.txt
head -5 ./*
grep x *
cat ./t*n*
cat ../a
cat src/../../a
cat .*
cat src/.*/x
cat ''
cat +a
cat a=b
cat .env
cat src/id_rsa
cat src/cred*
cat -x a
cat --numb a
cat --number=1 a
cat -*
head -n
head -n x a
head -n *.txt
head -nx a
uniq a b
uniq src/*
uniq -f1 a b
sort -o x a
sort -ro x a
sort --output=x
sort -k x a
sort -k -o a
grep --include=.env -r x .
grep --include *.py x
rg -g .env x
rg --pre ./x y
tree -Io a b
tree -I
tree -L2 src
find . -delete
find . -exec ls {} +
find . -name
find . -name -delete
find . -name *.py
find . -f*
find /etc
find . -newer /etc/passwd
sed -n 1w a
sed -i 1p a
sed 1p -i a
awk '{print > "x"}' a
awk '{print $1}' x=1 a
jq env a
jq .a[$x] a
[ -v x ]
[ -n x ]
[ a = b ]
[ 3 -gt 2 ]
[ ! ]
[ ! ! -f a ]
[ ! -f a b ]
[ -f a ] ]
test ! a -f b
[ -f a -a -f b ]
[ -f ]
[ x
[ -n -v ]
[ '(' = x ]
[ a = * ]
[ a -eq 1 ]
[ -f * ]
test
printf %n PATH
printf -v x y
printf
date 01010000
date -s now
cd
cd ..
cd -
cd src docs
cd .git
cd secrets && git show HEAD:a.txt
cd src; cd private_keys; git blame HEAD -- a.txt
cd src && cd credentials && ls; git -C . show HEAD:./prod.json
echo *
git
git -c a=b status
git branch x
git tag x
git stash
git log --output=x
git log -U --output=x
git log --format=%G?
git log '--format=%+G?'
git log --format='%(describe)'
git log --pretty=mine
git show HEAD:.env
git show HEAD:../x
git diff -- '.env*'
git worktree add x
git show -
true x
seq 1000000000
frobnicate
frobnicate ''
python
python -v
python -V x
python3 -c 1
python -m pip list
node
node -v x
npm ls
pip
pip install x
pip list --outdated
pip freeze
pip list
pip show requests
pip show -f ../x
make
make --version x
command
command -v ls -x
git -C
git -C .. status
git -C /etc status
git -C src
git -C src -c a=b status
git -C 'src*' push
git -C *.d status
git -C .ssh status
git config --list
git config user.name --int
git config --get user.name --bool
git config user.name --
git config user.name x
git config --get http.https://github.com/.extraheader
git config --get credential.helper
git config --get remote.origin.url
git config --get github.token
git config --unset user.name
git --literal-pathspecs diff
git branch --sort=signature:grade
git tag --sort=signature
git for-each-ref --format='%(signature)'
git for-each-ref --sort=signature:key
git branch --contains HEAD x
git tag -l -d v1
git tag -d v1
git for-each-ref --format='%(contents)'
git for-each-ref --format='%(raw)'
git for-each-ref --format='%(signature:key)'
git for-each-ref --format='%(describe)'
git for-each-ref --format='%(if)%(HEAD)%(then)x%(end)'
git for-each-ref --shell --format='%(refname)'
git branch --format=%00
git log --since --output=x
git log --format medium
git show abc1234:config
git show abc1234:hosts.yml
awk '!seen[$0]++ > "x"' f.txt
awk '{ print length > "x" }' f.txt
awk 'seen["x" | getline]++' f.txt
go version x
go env
cargo +nightly --version
git stash show -p
git status --ignore-submodules=none
git show 'abc123^{blob}'
git show 'abc123^{}'
git remote -v
git remote get-url origin
git remote get-url --push origin
git remote set-url origin x
jq env f.json
jq '{a: env, b}' f.json
jq '{a: if .x, env then 1 else 2 end}' f.json
jq '{a: if .x then {b} end | env}' f.json
jq '[{a}, env]' f.json
jq '{(env): 1}' f.json
jq '..env' f.json
jq '"\(.a | env)"' f.json
jq '{$__loc__}' f.json
jq .env.HOME,env f.json
jq '$ENV' f.json
jq '$ENV.HOME' f.json
jq 'env | keys' f.json
jq '.a | env' f.json
jq '"\(env)"' f.json
jq input f.json
jq inputs f.json
jq input_filename f.json
jq 'import "a" as a; .' f.json
jq 'include "a"; .' f.json
jq '@sh' f.json
jq debug f.json
jq halt_error f.json
jq '[range(9)]' f.json
jq 'getpath(["a"])' f.json
jq --arg a b . f.json
jq --args . f.json
jq --rawfile a .env . f.json
jq -f x f.json
jq '.a = 1' f.json
jq -L . . f.json
jq 'keysx' f.json
jq '......' f.json
jq '1.1.1' f.json
yq -i .a a.yml
yq 'env(HOME)' a.yml
yq 'load("x")' a.yml
sed 's/a/b/e' f.txt
sed 's/a/b/w x' f.txt
sed 's/a/b/gw x' f.txt
sed '1w x' f.txt
sed '1e' f.txt
sed 'e ls' f.txt
sed '1r /etc/passwd' f.txt
sed 's/[/]w x/b/' f.txt
sed 's|a|b|' f.txt
sed -i 's/a/b/' f.txt
sed -n -i p f.txt
sed -ni p f.txt
sed -f x f.txt
sed -e 1p -e '1w x' f.txt
sed 's/a/b/;w x' f.txt
sed '/a/,/b/{p;w x}' f.txt
sed --in-place p f.txt
sed p *
awk '{system("ls")}' f.txt
awk '{print | "sh"}' f.txt
awk '{print > "x"}' f.txt
awk '{print $1 > $2}' f.txt
awk '{print $1 >> $2}' f.txt
awk 'NR==1 {print > "x"}' f.txt
awk '{getline x < "y"}' f.txt
awk '{print ENVIRON["A"]}' f.txt
awk 'BEGIN {print}' f.txt
awk '{print $(1)}' f.txt
awk '{sum += system("x")} END {print sum}' f.txt
awk '{getline += $2} END {print getline}' f.txt
awk '{sum += $2} END {print sum > "x"}' f.txt
awk '$1 > "x" {print > "y"}' f.txt
awk -f x f.txt
awk -v a=b '{print}' f.txt
awk '@load "x"' f.txt
ps e
ps auxe
ps aux e
ps -ef e
ps auxeww
ps -eo pid,environ
ps -o env
ps axe
ps eww
ps -E
pgrep -r x
pkill x
xxd a b
xxd a -l
xxd a -b
xxd a --
xxd -r a b
xxd -r a
strings -o x a
tar -xf a.tar
tar -tf a.tar --to-command=x
tar -tzf host:a.tar
tar -tf a.tar
tar tvf a.tar
unzip -l a.zip
zipinfo -1 a
gzip -l a.gz
git reflog
wc -l *
md5sum *
sha256sum *.txt
file ./*
stat -L x
ls -lH x
du -H x
date -d 'TZ="/etc/passwd" now'
date --date='TZ=":x" 1'
tar -tf ../a.tar
tar -tf a.tar -I x
tar -cf a.tar x
unzip a.zip
unzip -l a.zip -d x
zcat -f /etc/passwd
zcat a.tar.gz
grep -e* x
grep -n foo --max-count=? x
fd -x rm
fd x -X rm
fd --exec rm
fd -l x
free -s 1
hostname x
hostname -F x
diff --to-file=x a
tac ..
join a b c
rg -L x
numfmt --invalid=x 1
locale -k x
"""


def lines(text: str) -> list[str]:
    return text.strip().split("\n")


@pytest.mark.parametrize("command", lines(SAFE))
def test_a_local_read_in_the_language_is_safe(command: str) -> None:
    verdict = classify_shell_command(command)
    assert (verdict.severity, verdict.category, verdict.reasons) == ("safe", "read", ())


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", [one for one in lines(NOT_SAFE) if one != "printf"])
def test_a_command_outside_the_language_is_not_safe(command: str) -> None:
    assert classify_shell_command(command).severity != "safe"


# mutations

OPTION = re.compile(r"--?[A-Za-z]")
ADDED_OPTIONS = [
    *(
        "-o",
        "-oPWN",
        "--output=PWN",
        "-exec",
        "-delete",
        "-c",
        "-i",
        "-f",
        "-X",
        "--pre=x",
        "--ext-diff",
        "-O",
    ),
    *(
        "--files0-from=a",
        "--compress-program=x",
        "--pager=x",
        "-W",
        "-Y",
        "--no-such-option",
        "-J",
        "--set",
        "-K",
    ),
]
ADDED_WORDS = [
    *(
        "x$y",
        "$(x)",
        "`x`",
        "$x",
        "(x",
        "x)",
        "}",
        "; touch x",
        "& touch x",
        "> x",
        ">x",
        ">> x",
        "2> x",
    ),
    *("<(x)", "\nrm x", "é", "a\u00e9b", "ｌs", "&", ";;", "||", "&>x"),
]
TEXTS = frozenset("echo printf".split())
"""Programs whose operands are text: a word there says nothing about files or options."""


def is_text(command: str) -> bool:
    """Whether a word added at the end becomes the text of a program that prints it, or a pattern."""
    last = re.split(r"&&|\|\||[;|]", command)[-1].split()
    return not last or last[0] in TEXTS


PLAIN = [one for one in lines(SAFE) if not is_text(one) and "--" not in one.split()]


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", PLAIN)
def test_an_option_that_is_not_listed_makes_a_command_unsafe(command: str) -> None:
    *_, last = parse_literal(command)
    tables = {**programs.PROGRAMS, "git": programs.GIT, "find": " ".join(programs.FIND)}
    known = str(tables.get(" ".join(last.argv[:2]), tables.get(last.argv[0], "")))
    for option in ADDED_OPTIONS:
        letters = "".join(re.findall(r"\+(\w+)", known))
        if option in known.split() or (len(option) == 2 and (option[1] in letters or f"{option} " in known)):
            continue
        if re.search(rf"(?<![\w-]){re.escape(option[:2])}[=:]", known):
            continue
        assert classify_shell_command(f"{command} {option}").severity != "safe", option


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", PLAIN)
def test_a_word_with_an_equals_sign_makes_a_command_unsafe_unless_it_is_text(command: str) -> None:
    for word in ("a=b", "PATH=1", "--output=x"):
        assert classify_shell_command(f"{word} {command}").severity != "safe"
        found = classify_shell_command(f"{command} {word}")
        assert found.severity != "safe" or _is_pattern_next(command)


def _is_pattern_next(command: str) -> bool:
    """Whether the next operand is a pattern or a text, not a path."""
    return command.split()[0] in ("git", "rg", "tr") or "-n x" in command


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", lines(SAFE))
def test_a_word_with_shell_syntax_makes_any_command_unsafe(command: str) -> None:
    for word in ADDED_WORDS:
        assert classify_shell_command(f"{command} {word}").severity != "safe", word
        assert classify_shell_command(f"{command}{word}").severity != "safe", word
        assert classify_shell_command(f"{word} {command}").severity != "safe", word


@pytest.mark.promise("S2")
@settings(max_examples=some(500))
@given(st.sampled_from(lines(SAFE)), st.sampled_from("$`({)};&>\n\té=#~!<|*'\"\\"), st.data())
def test_a_character_of_the_shell_anywhere_leaves_the_language_or_is_quoted(
    command: str, character: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(command)))
    mutated = command[:at] + character + command[at:]
    if classify_shell_command(mutated).severity != "safe":
        return
    # It is safe only where it is text of a word, a pattern of paths, or a separator of safe commands.
    assert character not in "\té"
    for one in parse_literal(mutated):
        for word in one.words:
            raw = mutated[word.start : word.end]
            unquoted = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", "", raw)
            assert not set(unquoted) & set("$`(){};&<>|")


@given(
    st.lists(
        st.sampled_from("ls 'a' \"b\" \\ ; | && || a\\ b $x ` ( ) { } > < 2>&1 # ~ ! = * [ ] \n".split(" ")),
        max_size=8,
    )
)
def test_what_the_parser_reads_is_what_the_referee_reads_or_nothing_is_safe(pieces: list[str]) -> None:
    text = " ".join(pieces)
    try:
        commands = parse_literal(text)
    except NotLiteral:
        assert classify_shell_command(text).severity != "safe"
        return
    if not agrees(text, commands):
        assert classify_shell_command(text).severity != "safe"


@pytest.mark.parametrize(
    "text", ["ls", "ls 'a b' \"c\" d\\ e | wc 2>&1 && [ ! -d x ] ; pwd", "echo é", "ls &>/dev/null"]
)
def test_the_referee_agrees_on_literal_commands(text: str) -> None:
    assert agrees(text, parse_literal(text))


@pytest.mark.parametrize(
    ("read", "real"), [("ls a", "ls b c"), ("ls", "ls; ls"), ("ls", "ls $x"), ("ls", "ls (")]
)
def test_the_referee_does_not_agree_to_other_words(read: str, real: str) -> None:
    assert not agrees(real, parse_literal(read))


def test_the_referee_is_asked_about_a_newline_that_it_misreads() -> None:
    # tree-sitter-bash 0.25 reads this as one `ls`; bash runs `rm`.
    text = "ls\n\\rm -rf x"
    assert not agrees(text, parse_literal(text))
    assert classify_shell_command(text).severity == "dangerous"


# a third opinion


def words_of_shfmt(text: str) -> set[tuple[int, int]]:
    """Every word of a command that shfmt sees, by its place."""
    done = subprocess.run(
        [SHFMT, "--to-json", "-ln", "bash"], input=text.encode(), capture_output=True, check=True
    )
    found: list[tuple[int, int]] = []
    stack: list[object] = [json.loads(done.stdout)]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(cast(list[object], node))
        elif isinstance(node, dict):
            inside = cast(dict[str, object], node)
            if inside.get("Type") == "CallExpr":
                words = cast(list[dict[str, dict[str, int]]], inside.get("Args") or [])
                found += [(word["Pos"]["Offset"], word["End"]["Offset"]) for word in words]
            stack.extend(inside.values())
    return set(found)


@pytest.mark.skipif(not SHFMT.exists(), reason="shfmt is not installed beside this Python")
def test_shfmt_sees_the_same_words_in_safe_commands() -> None:
    for text in [*lines(SAFE), *safe_commands(150, seed=3)]:
        ours = {(word.start, word.end) for one in parse_literal(text) for word in one.words}
        assert words_of_shfmt(text) == ours, text
