"""Structures of the shell: none is in the language, whatever the commands in it."""

import pytest

from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.parser import parse_literal
from windlass_harness.shell.reads import read_of
from windlass_harness.shell.referee import agrees

SAFE = r"""
awk '{a[$1]++} END {for (k in a) print k, a[k]}' f.md
expr 6 + 7
ls --help
npm --version
awk '{ if ($1 > 5) print $1 }' f.md
""".strip().split("\n")

NOT_SAFE = r"""
(cd src && ls)
(ls; pwd) | cat 2>/dev/null
{ ls; pwd; } > /dev/null
! grep -q foo f.md
time ls -l
time -p ls
timeout 10s grep -rn main src
nice -n 5 ls
env LC_ALL=C sort a.md
command ls src
LC_ALL=C sort a.md
TZ=America/New_York date
if [ -f Makefile ]; then cat Makefile; fi
if [[ -f a.md ]]; then wc -l a.md; elif grep -q x b.md; then ls; else echo no; fi
[[ -d src ]] && ls src
[[ 3 -gt 2 ]] && echo yes
echo "on $(git rev-parse --abbrev-ref HEAD) at $(date +%s)"
basename "$(pwd)"
dirname $(pwd)
[ "$(ls | wc -l)" -gt 5 ] && echo many
[ -x "$(command -v docker)" ] && echo yes
test "$(git rev-parse HEAD)" = abc
echo $HOME "$PATH" ${USER} $?
printf '%s\n' "$PWD"
echo $((1024 * 1024))
diff <(sort a.md) <(sort b.md)
comm -3 <(sort a) <(sort b)
grep foo <<< "foo bar"
tr ':' 'x' <<< "$PATH"
ls # list; rm -rf x
ls |& head -n 4
echo done >&2
set -euo pipefail; ls
(rm x)
{ ls; rm x; }
! rm x
time rm x
timeout 5 rm x
timeout -s KILL 5 ls
nice -n 5 ./x
env PATH=. ls
env -i ls
env
command -p ls
PATH=. ls
LD_PRELOAD=x ls
LC_ALL=$(rm x) ls
TZ=/etc/shadow date
LC_ALL=C
if rm x; then ls; fi
if ls; then rm x; fi
if ls; then ls; else rm x; fi
if ls; fi
if ls; then fi
for f in a; do rm $f; done
for f in $(rm x); do ls; done
for f in .env; do cat "$f"; done
for f in a .env; do cat $f; done
for f in .e*; do cat "$f"; done
for f in *; do cat "$f"; done
for f in "a .env"; do cat $f; done
for f in 'a*'; do cat $f; done
for f in -oPWN; do sort a $f; done
for PATH in a; do ls; done
for f in a; do cd src; done
for f in a; do ls; done > x
for f in a; do ls; done &
for f; do ls; done
while true; do ls; done
until ls; do ls; done
case x in x) ls;; esac
[[ x[$(rm x)] -eq 1 ]]
[[ "$(cat f)" -eq 1 ]]
[[ -v a ]]
[[ a =~ b ]]
[[ -f a && -f b ]]
echo $(rm x)
echo "$(rm x)"
echo "a $(echo $(rm x))"
echo `rm x`
echo "`rm x`"
cat $(ls)
cat "$HOME/x"
cat $HOME
wc -l $(git ls-files)
ls "$(pwd)"
sort $(echo -oPWN) a
echo $SECRET
echo $AWS_SECRET_ACCESS_KEY
echo ${x}
echo ${PATH:-$(rm x)}
echo ${HOME@P}
echo $((x))
echo $((a[$(rm x)]))
echo $(<.env)
echo $(cat .env)
cat <(rm x)
cat <(cat .env)
cat < <(ls)
ls >(rm x)
cat src/{.env,b}
cat {.env,a}
cat .{env,x}
sort -{o,}PWN a
{rm,x}
ls {a,$(rm x)}
cat <<EOF
for i in 1 2 3; do echo $i; done
for f in a.md "b c.md"; do head -1 "$f"; done
for f in src/*.py; do echo "== $f"; wc -l "$f"; done
for d in src tests; do for f in a b; do ls "$d/$f.py"; done; done
for i in {1..5}; do echo "$i"; done
find . -name '*.py' -exec grep -l foo {} +
find src -type f -name '*.md' -not -path './x/*' -exec wc -l {} \;
for f in ls; do for f in ./evil; do true; done; $f; done
for _ in ls; do echo ./evil; $_; done
for left_out_of_git in --ext-diff; do git log -p; done
for f in x; do for fa in .env; do cat $f{a,b}; done; done
cat ['a']uth.json
cat ['o']ut.txt
echo $USER{_TOKEN,}
command cd src && git log -p
time cd src; git show
git -C .config show HEAD:./gh/hosts.yml
zcat l
diff src <(echo x)
cd a; cd b; cd c; cd d; cd e; cat x.txt
cat src/{models,views}.py
ls *.{js,ts}
grep {-Rh,-Rn} 'xxxx;./evil #' .
grep -rh {CANARY,--,.}
diff .m2 settings.xml
diff .git config
git -C etc show HEAD:./kubernetes/admin.conf
cat xa?a?a?a?a?a?b
git show a:a:a:a:a:a:a
find . -exec cat {} +
find . -name '*' -exec cat {} +
find . -name '*.json' -exec cat {} +
find . -name '*.pem' -exec cat {} +
find . ! -name '*.py' -exec cat {} +
find . -name '*.py' -o -exec cat {} +
find . -name '*.py' -exec rm {} +
find . -name '*.py' -exec sh -c 'rm {}' \;
find . -name '*.py' -exec grep -r x . {} +
find . -name '*.py' -exec grep x .env {} +
find . -name '*.py' -exec cat {}x \;
find . -name '*.py' -exec cat {}
find . -name '*.py' -exec {} +
find . -name '*.py' -execdir cat {} +
find . -name '*.py' -ok cat {} \;
ls # x
ls |& tee x
ls & rm x
echo x > &2
set -o history
set -- a
set +e
java -version
top -b -n 1
npm ls
find . -name '*.py' | xargs cat
find . -name '*.py' | xargs wc -l
tail -f app.log
basename "$(pwd)"
ss -K
ss -E
ss -tF x
ss -D x
ss -r
ss -ltn -N x
ss dst :80
nm @x
f() { ls; }; f
time
timeout 5
nice
""".strip().split("\n")
NOT_SAFE[NOT_SAFE.index("ls # x")] = "ls # x\nrm x"


@pytest.mark.parametrize("command", SAFE)
def test_a_line_of_safe_commands_is_safe(command: str) -> None:
    assert classify_shell_command(command).reasons == ()
    assert read_of(command) is not None


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", NOT_SAFE)
def test_a_line_with_anything_else_is_not_safe(command: str) -> None:
    assert classify_shell_command(command).severity != "safe"
    assert read_of(command) is None


@pytest.mark.parametrize(
    "command",
    ["time rm x", "(rm x)", "if ls; then rm x; fi", "echo $(rm x)", "ls # x", "for f in a; do rm $f; done"],
)
def test_the_commands_of_a_line_that_is_not_plain_are_unknown_to_rules(command: str) -> None:
    assert classify_shell_command(command).commands == ()


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        ("\n ls ;\n\n pwd \n", "safe"),
        ("ls |\n\nwc", "safe"),
        ("ls\n| wc", "caution"),
        ("ls\n;", "caution"),
        ("ls " + "a*.md " * 20, "safe"),
        ("ls " + "a*.md " * 21, "caution"),
    ],
)
def test_the_edges_of_lists_and_patterns(command: str, severity: str) -> None:
    assert classify_shell_command(command).severity == severity


@pytest.mark.parametrize(
    "real", ["f() { ls; }", "ls; case x in x) ls;; esac", "while ls; do ls; done", "(ls)"]
)
def test_the_referee_does_not_agree_to_a_structure(real: str) -> None:
    assert not agrees(real, parse_literal("ls"))
