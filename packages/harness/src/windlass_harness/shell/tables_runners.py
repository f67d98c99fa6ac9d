"""Programs that run others: wrappers, shells, interpreters.

Literal data only.
The form of a description is in `options.py`.
"""

WRAPPERS = {
    "nice": "0123456789 n= | adjustment= | command",
    "ionice": "tc= n= p= | class= classdata= ignore | command",
    "chrt": "abfiormp T= P= D= | | text command",
    "taskset": "apc | cpu-list all-tasks | text command",
    "timeout": "fpv k= s= | foreground preserve-status verbose signal= kill-after= | text command",
    "nohup": "| | command",
    "setsid": "cfw | ctty fork wait | command",
    "stdbuf": "i= o= e= | input= output= error= | command",
    "time": "apqvV f= o> | append portability quiet verbose format= output> | command",
    "strace": (
        "cCdfFhiknqrtTvVxyzZ a= b= e= E! I= o> O= p! P= s= S= u= X= | trace= output> string-limit= "
        "follow-forks | command"
    ),
    "ltrace": "bcCfhiLrStTV a= A= D= e= F@ l= n= o> p! s= u= x= | output> | command",
    "command": "pvV | | command",
    "builtin": "| | command",
    "exec": "cl a= | | command",
    "caffeinate": "dimsut=w= | | command",
    "chroot": "| groups= userspec= skip-chdir | text command",
    "unshare": (
        "cCfFhilmnprTuUV S= G= R= w= | ipc? mount? net? pid? uts? user? cgroup? fork map-root-user "
        "map-current-user mount-proc? root= wd= setuid= setgid= kill-child? propagation= keep-caps | "
        "command"
    ),
    "prlimit": "c? d? n? p= | pid= | command",
    "setarch": "3BFILRSTXZ | addr-no-randomize uname-2.6 | command",
    "linux64": "R | | command",
    "linux32": "R | | command",
    "choom": "n= p= | | command",
    "numactl": "ai= N= m= C= | | command",
    "catchsegv": "| | command",
    "fakeroot": "i@ s> l! f! | | command",
    "faketime": "fm | | text command",
    "dbus-run-session": "| config-file@ dbus-daemon! | command",
    "xvfb-run": "ad n= s= e> f@ | auto-servernum server-args= | command",
    "cgexec": "g= | sticky | command",
    "firejail": "| | command",
    "bwrap": "| | command",
    "proot": "r= b= w= q= | | command",
    "systemd-inhibit": "| what= who= why= mode= | command",
    "systemd-cat": "t= p= | identifier= priority= | command",
    "ld.so": "| list verify preload! audit! library-path! argv0= inhibit-cache inhibit-rpath= | command",
    "busybox": "| list list-full install~ | command",
    "toybox": "| long | command",
    "flock": (
        "Fenosux E= w= c$ | close no-fork exclusive nonblock shared unlock conflict-exit-code= timeout= "
        "command$ verbose | write command"
    ),
    "script": (
        "aefqt O> I> B> T> c$ m= E= o= | append command$ echo= flush force quiet return timing? log-out> "
        "log-in> output-limit= | write"
    ),
    "watch": (
        "bcdegptwx n= q= | beep color differences? errexit chgexit interval= precise no-title no-wrap "
        "exec | code"
    ),
    "entr": "acdnprsz | | command",
    "retry": "t= d= | times= delay= | command",
    "cpulimit": "l= p= e= zv | limit= | command",
    "valgrind": "| | command",
    "heaptrack": "| | command",
    "direnv": "| | text text command",
    "sem": "| | command",
    "pexec": "| | command",
    "sshpass": "p= f@ d= e | | command",
    "torsocks": "| | command",
    "daemonize": "ac=e>o>p>l>u=E= | | command",
    "wine": "| | command",
    "gtime": "apqv f= o> | | command",
    "hyperfine": (
        "Niw=r=m=M=p$s$c$L= | warmup= runs= prepare$ setup$ cleanup$ shell= export-json> "
        "export-markdown> ignore-failure | code"
    ),
}
"""Programs that run the command they are given."""

PLAIN_WRAPPERS = frozenset(
    """
    builtin caffeinate catchsegv choom chrt command cpulimit exec faketime flock gtime hyperfine ionice
    linux32 linux64 ltrace nice numactl prlimit retry script setarch setsid stdbuf strace taskset time
    timeout watch
    """.split()
)
"""Wrappers that add nothing to what they run: no file, no daemon, no other root."""

SHELL_BY_DEFAULT = frozenset(
    "bwrap chroot fakeroot firejail linux32 linux64 nsenter proot script setarch unshare".split()
)
"""Wrappers that start a shell when they are given nothing to run."""

SHELLS = frozenset(
    """
    ash bash csh dash elvish es fish ksh ksh93 loksh mksh nu oksh pdksh posh rc sash sh tcsh xonsh yash zsh
    """.split()
)
SHELL_OPTIONS = (
    "abefhiklmnprstuvxBCDEHPTo=O= c$ | login norc noprofile posix restricted verbose init-file! rcfile! "
    "debugger dump-strings | command"
)

INTERPRETERS = {
    "python": "bBdEhiIOPqRsSuvVx c% W= X= m= | check-hash-based-pycs= help version | script",
    "pypy": "bBdEhiOsSuv c% W= X= m= | | script",
    "perl": "acfnptuUvVwWsSTXlg0? e% E% i? I! M% m% F= D= C? x? d! | | script",
    "ruby": "acdlnpsSvwWyU0? e% E= F= i? I! r! C= K= T? x? X= | version enable= disable= | script",
    "node": (
        "cipv e% r! C= | eval% print% require! import! loader! experimental-loader! check inspect? test "
        "watch env-file@ version | script"
    ),
    "nodejs": "cipv e% r! | eval% print% require! import! | script",
    "deno": "| | deno",
    "bun": "| | deno",
    "php": "aCehilmnqsvw r% B% R% E% F@ d= c@ z! f@ S= t= | run% define= | script",
    "lua": "ivE e% l! | | script",
    "luajit": "ivb e% l! j! | | script",
    "texlua": "e% | | script",
    "tclsh": "| | script",
    "Rscript": "e% | | script",
    "R": "e% f@ | vanilla slave no-save quiet | script",
    "julia": "e% E% L! i p= t= | eval% print% load! project? | script",
    "groovy": "e% | | script",
    "scala": "e% | | script",
    "elixir": "e% r! S= | eval% rpc-eval% | script",
    "erl": "| eval% noshell -eval% -noshell -s! -run! -noinput -pa@ | script",
    "ghc": "e% o> | | script",
    "runghc": "e% | | script",
    "guile": "c% l@ s@ e= q L! | | script",
    "racket": "e% f@ t@ l= | eval% | script",
    "sbcl": "| eval% load! script@ non-interactive noinform | script",
    "clisp": "x% i! q | | script",
    "clojure": "e% M? A? | eval% | script",
    "bb": "e% | | script",
    "ocaml": "e% I! | | script",
    "swift": "e% | | script",
    "jrunscript": "e% f@ l= | | script",
    "dc": "e% f@ V | expression% file@ | code-path",
    "bc": "hilqsvw e% f@ | mathlib quiet standard warn interactive expression% file@ | code-path",
    "gnuplot": "pe% | | script",
    "octave": "qW | eval% no-gui quiet silent | script",
    "maxima": "q | batch-string% batch@ very-quiet | script",
    "gdb": (
        "qnx! c@ p! | pid! ex% eval-command% command! x! batch nx nh args? -ex% -iex% -batch -x! "
        "init-eval-command% | command"
    ),
    "lldb": "o% O% s! S! p! n! b | attach-pid! one-line% source! batch | command",
    "emacs": "Qqnwl!f= | eval% batch script! load! funcall! no-window-system quick execute% | path",
    "emacsclient": "nct e% | eval% | path",
    "vim": (
        "bdeEghHlLmMnNRsvVxyZ0 c% S! u! U! p o q t= w> W> T= + | cmd% clean noplugin not-a-term "
        "startuptime> remote-expr% | path"
    ),
    "vi": "eRrv c% t= | | path",
    "nvim": "bdeERsn c% S! u! l! o p | cmd% headless clean embed listen! remote-expr% | path",
    "view": "c% S! u! | cmd% | path",
    "rvim": "c% S! | cmd% | path",
    "vimdiff": "c% S! u! | cmd% | path",
    "ex": "c% s | | path",
    "nano": "s! wlmiv | speller! | path",
    "sqlite3": (
        "| cmd% header noheader csv json column line list table markdown readonly batch bail separator= "
        "init! -cmd% -header -csv -json -column -line -list -readonly -batch -init! -separator= -safe "
        "-html | sql"
    ),
    "duckdb": "c% csv json | readonly | sql",
    "psql": (
        "aAbeEnqtwWxXzL> c% d= h= p= U= v= P= F= R= f@ o> 1 l | command% dbname= host= port= username= "
        "file@ output> tuples-only no-psqlrc list set= csv html quiet variable= | text"
    ),
    "mysql": (
        "ABbCEfHLNnqrstTvVwX e% u= p? h= P= D= S= | execute% user= password? host= port= database= batch "
        "skip-column-names pager! | text"
    ),
    "mariadb": (
        "ABbCEfHLNnqrstTvVwX e% u= p? h= P= D= S= | execute% user= password? host= port= database= batch "
        "| text"
    ),
    "mongo": "u= p= | eval% quiet host= port= norc shell | text",
    "mongosh": "u= p= f@ | eval% quiet host= port= norc shell | text",
    "cqlsh": "e% u= p= k= f@ | execute% | text",
    "clickhouse-client": "q% h= u= | query% host= user= password= database= format= multiquery | text",
    "clickhouse": "q% | query% | text",
    "sqlcmd": "Q% q% S= U= P= d= i@ E | | text",
    "m4": "PQsEGD=U=I= | | code-path",
    "tex": "| | tex",
    "latex": "| | tex",
    "pdflatex": "| | tex",
    "xelatex": "| | tex",
    "lualatex": "| | tex",
    "pdftex": "| | tex",
    "luatex": "| | tex",
    "csi": "qe% | | script",
    "ipython": "i c% m= | | script",
    "ipython3": "i c% m= | | script",
    "jshell": "| | script",
    "kotlin": "e% | | script",
    "bpython": "i | | script",
    "ed": "svGp= | | path",
    "red": "s | | path",
}
"""Programs that take program text; `%` marks the options that carry it."""
