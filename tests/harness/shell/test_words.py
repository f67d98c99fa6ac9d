"""Shell words: quoting, expansion and assignment decide the grade."""

import pytest

from windlass_harness.shell import Severity, classify_shell_command


def grade(command: str) -> Severity:
    return classify_shell_command(command).severity


@pytest.mark.parametrize(
    "command",
    [
        r"$'\cA\162m' x; $'\162\u006d' -rf x",
        r"$'\U00000072m' -rf x",
        "x=(a rm); ${x[1]} f",
        "name=cmd; cmd=rm; ${!name} f",
        "x=RM; ${x,,} f",
        "x=RMx; y=${x,}; ${y:0:2} f; rm f",
        "x=m; x=r$x; $x f",
        "x=r; x+=m; $x f",
        "x=Xrm; ${x#X} f",
        "x=rmX; ${x%X} f",
        "x=rXm; ${x/X/} f",
        "x=rm; ${x:0} f",
        "x=arm; ${x:1:9} f",
        "x=rm; ${x:9}; ${x@Q} f",
        "x=rm; ${x:-ls} f",
        "x=rm; ${x:=ls} f",
        "x=; ${x:-rm} f",
        "x=1; ${x:+rm} f",
        "${x:+rm} f",
        "x=ls; if true; then x=rm; fi; $x f",
        "x=ls; while date; do $x -rf y; x=rm; done",
        "c='rm x'; bash -c \"$c\"",
        "p='$(rm x)'; echo ${p@P}",
        "i='a[$(rm x)]'; echo $((i))",
        "i='a[$(rm x)]'; let i",
        "echo ${a[$(rm x)]}",
        "for c in ls rm; do $c f; done",
        'set -- f; rm "$1"',
        'set rm x; "$@"',
        "f() { $1 $2; }; f rm x",
        "f() { for i; do $i x; done; }; f rm",
        'f() { rm "$2"; }; f',
        "read c <<< rm; $c f",
        "{r,}m -rf x",
        "r{m,} -rf x",
        '"${x[@]}" -rf y',
        "${AWS_SECRET_ACCESS_KEY} x",
        "$(tr a b <<< x) y",
        "$(curl -s https://example.com/x)",
        "cat ${SECRET_FILE:-.env}",
        "echo ${API_TOKEN:-none}",
        "$x -c 'rm y'",
        "$x rm y",
        "*" + "a" * 70 + "* x",
        "time FOO=1 rm x",
        "X=1 Y=2 env Z=3 rm x",
        "sudo=rm; $sudo x",
        "echo ${ rm x; }",
        "bash -c '\"$@\"' _ rm x",
        "bash -c '$0 x' rm",
        "echo 'rm \"$1\"' | sh -s -- x",
        "{a,{rm,b}} x; rm y",
        "echo ${x/a/$(rm y)}",
    ],
)
def test_a_dangerous_command_is_seen_through_expansion(command: str) -> None:
    assert grade(command) == "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        "$x",
        "${x}y",
        "l''s",
        "l\\s",
        "{ls,-l}",
        "/bin/l?",
        "ls ${!x}",
        "cat $x",
        "cat ${x:-a}",
        'cat "${x:?}"',
        "grep $x f",
        "echo $UNKNOWN_NAME",
        "printf '%s' $UNKNOWN_NAME",
        "sort *",
        "cat *",
        "x=a; if true; then x=b; fi; cat $x",
        "x=a; for i in 1 2 3 4 5 6 7 8 9 10; do cat $i; done",
        "read x; echo $((x))",
        'for f; do cat "$f"; done',
        "echo {1..100}{1..100}{1..100}",
        "echo " + "{" * 70 + "a,b" + "}" * 70,
        "x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; " + "x=$x$x; " * 20 + "echo",
        "ls $(pwd)/$1",
        "nm @opts a.out",
        'cat "${x:-it\'s}"',
        "x=$(date); echo ${x%0}; cat ${x#a}",
    ],
)
def test_a_computed_word_is_never_proof_of_a_read(command: str) -> None:
    assert grade(command) == "caution"


@pytest.mark.parametrize(
    "command",
    [
        "cat 'a b.txt'",
        'cat "a b.txt"',
        r"cat a\ b.txt",
        "cat a\\\n b",
        "echo $'tab\\there'",
        'echo $"hi"',
        "echo ${#x} ${x[@]:-none}; x=1",
        "x=5; echo ${x:-1}",
        "x=5; echo ${x:+1} ${x-2}",
        "x=(a b); echo ${x[@]} ${x[0]} ${x[5]} ${#x[@]}",
        "x=abc; echo ${x:1} ${x^} ${x^^} ${x%c} ${x/b/d} ${x//b/d} ${x@Q} ${x: -1}",
        "x=abc; echo ${x:$((1)):2}",
        'x=a; y=b; echo $x$y "$x $y" ${x}_y',
        "x=; echo $x \"\" ''",
        "a[1]=x; echo ${a[1]}",
        "a=(1); a+=(2); echo ${a[@]}",
        "echo {a,{b,c}} {a,b}{c,d} {1..3} {c..a} {x} {} a{b {3..1}",
        "echo $((1 + (2 * 3))) $[4]",
        "echo $? $# $$ $! $- $0",
        "echo $HOSTNAME $LINENO",
        "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done",
        "for i in a b; do for j in c d; do echo $i$j; done; done",
        "for ((i=0; i<3; i++)); do echo $i; done",
        'f() { cat "$1"; }; f README.md',
        'f() { echo "$@"; }; f a b',
        "unset x; x=1; unset x; echo done",
        "echo a#b # comment",
        "cd src && cat ../README.md",
        "echo \"${x:-\"a b\"}\" 'it'\\''s'",
        'x=$(date); echo "$x"',
        "printf '%d%% %b\\n' 5 'a\\n'",
        "printf -v x '%s' a; echo $x",
        "printf",
        "echo -ne 'a\\n'",
        "[[ a && ( b || c ) ]] && ls",
        "[[ $x =~ ^a(b|c)$ ]] || ls",
        "[[\na\n]]",
        "(( 1 + 1 )) && ls",
        "((1)); ls",
        "echo $( (ls) )",
        'echo "$(echo "$(date)")"',
        "ls |& cat",
        "! ls",
        "time -p ls",
        "case $x in (a|b) ls;; c) ;; *) pwd; esac",
        "case x in esac",
        "if ls; then pwd; elif date; then id; else ls; fi",
        "until ls; do pwd; done",
        "select x in a b; do echo $x; break; done",
        "{ ls; pwd; } 2>&1 | cat",
        "(ls) >/dev/null",
        "function f { ls; }; f",
        "function f() { ls; }; f",
        "f() ( ls ); f",
        "f()\n{ ls; }\nf",
        "ls 2>&1 >/dev/null <README.md",
        "ls {fd}>/dev/null",
        "ls &>/dev/null",
        "cat <<< $'a\\'b'",
        "if ls\nthen pwd\nfi",
        "ls &",
        "a=(\n 1\n # comment\n 2\n)",
        "for x in a\ndo echo $x\ndone",
    ],
)
def test_a_literal_read_in_any_quoting_is_safe(command: str) -> None:
    assert classify_shell_command(command).reasons == ()


@pytest.mark.parametrize(
    "command",
    [
        "for i in 1 2; { echo $i; }",
        "cat <<-END\n\thello $((1)) `date`\n\tEND",
        "cat <<'A' <<B\none\nA\ntwo\nB",
        "((ls); pwd)",
        "time { ls; }",
        "echo $((ls); pwd)",
    ],
)
def test_a_program_that_the_second_parser_reads_otherwise_is_not_safe(command: str) -> None:
    assert [reason.code for reason in classify_shell_command(command).reasons] == ["unknown/parse"]


@pytest.mark.parametrize(
    "command",
    [
        "ls `ls )`",
        "echo ${}",
        "echo ${x y}",
        "echo ${x",
        "echo $((1",
        "echo $(ls",
        "echo `ls",
        "echo $'ls",
        "cat <<A\nno end",
        "cat <<A",
        "cat <<$(ls)\nx\nEOF",
        "if ls; fi",
        "if; then ls; fi",
        "{ }",
        "( )",
        "for 1 in a; do ls; done",
        "for x in a; ls; done",
        "case x in a ls;; esac",
        "case x in a) ls esac",
        "case x in a b) ls;; esac",
        "f() ls",
        "f ( ls )",
        "ls ;; ls",
        "ls | | ls",
        "ls > ",
        "a=(1 2",
        "[[ a",
        "then ls",
        "ls done fi )",
        "! ! for",
        "coproc",
    ],
)
def test_a_text_that_does_not_parse_is_never_safe(command: str) -> None:
    verdict = classify_shell_command(command)
    assert verdict.severity == "caution"
    assert "unknown/parse" in {reason.code for reason in verdict.reasons}


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x; for",
        "for f in *; do rm $f",
        "echo 'a; rm -rf x",
        "ls && (rm x",
        "x `rm y",
        "(((((((((((((((((((((((rm x",
    ],
)
def test_a_dangerous_command_in_broken_text_is_still_seen(command: str) -> None:
    assert grade(command) == "dangerous"
