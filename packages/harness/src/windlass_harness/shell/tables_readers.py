"""Programs that only read, with every option that keeps them reading.

Literal data only.
The form of a description is in `options.py`.
"""

READERS = {
    "cat": (
        "AbeEnstTuv | show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting "
        "| path"
    ),
    "tac": "br s= | before regex separator= | path",
    "nl": (
        "p b= d= f= h= i= l= n= s= v= w= | body-numbering= number-format= number-width= "
        "starting-line-number= | path"
    ),
    "head": "qvz0123456789 c= n= | quiet silent verbose zero-terminated bytes= lines= | path",
    "tail": (
        "qvzrf~F~0123456789 c= n= s= | quiet silent verbose zero-terminated bytes= lines= follow~ retry "
        "pid= sleep-interval= max-unchanged-stats= | path"
    ),
    "wc": "clLmw | bytes chars lines max-line-length words total= files0-from@ | path",
    "ls": (
        "aAbBcCdDfFgGhHiklLmnNopqQrRsStTuUvwxXZ1 I= | all almost-all author escape block-size= "
        "ignore-backups color? directory dired classify? file-type format= full-time "
        "group-directories-first no-group human-readable si dereference hide= hyperlink? "
        "indicator-style= inode ignore= kibibytes numeric-uid-gid literal hide-control-chars "
        "show-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= "
        "tabsize= width= context zero | path"
    ),
    "dir": "aAlhRt1 | all | path",
    "vdir": "aAlhRt1 | all | path",
    "tree": (
        "adflxpugshDFvtcUrQNqnACSXJi0123456789 L= P= I= H= T= o> | noreport charset= filelimit= "
        "dirsfirst filesfirst sort? inodes device timefmt= matchdirs ignore-case prune du si nolinks "
        "gitignore gitfile@ fromfile metafirst info | path"
    ),
    "eza": (
        "alhrRTdFs=L=I=1xGBgbiHSmuUt= | long all tree level= git git-ignore icons? color? colour? sort= "
        "reverse header group-directories-first only-dirs only-files ignore-glob= no-permissions no-user "
        "no-time time-style= oneline recurse grid | path"
    ),
    "stat": "Ltf c= | dereference file-system format= printf= terse cached= | path",
    "file": (
        "bikLNrvzZhs0 F= e= P= | brief mime mime-type mime-encoding keep-going dereference "
        "no-dereference separator= no-buffer version | path"
    ),
    "du": (
        "abcDhHklmLPsSx0 d= B= t= X@ | all apparent-size block-size= bytes total dereference-args "
        "max-depth= human-readable inodes count-links dereference si summarize threshold= time? "
        "time-style= exclude-from@ exclude= one-file-system separate-dirs null | path"
    ),
    "df": (
        "ahHiklPTv t= x= B= | all block-size= human-readable si inodes local no-sync output? portability "
        "sync total type= print-type exclude-type= | path"
    ),
    "basename": "az s= | multiple suffix= zero | text",
    "dirname": "z | zero | text",
    "realpath": (
        "emLPqsz | canonicalize-existing canonicalize-missing relative-to= relative-base= quiet strip "
        "no-symlinks zero logical physical | path"
    ),
    "readlink": (
        "femnqsvz | canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent "
        "verbose zero | path"
    ),
    "sort": (
        "bcCdfghiMmnRrsuVz k= S= t= o> T> | ignore-leading-blanks dictionary-order ignore-case "
        "general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort "
        "reverse sort= version-sort check? key= merge stable buffer-size= field-separator= unique "
        "zero-terminated parallel= debug batch-size= output> temporary-directory> files0-from~ "
        "random-source@ compress-program! | path"
    ),
    "uniq": (
        "cdDiuz f= s= w= | count repeated all-repeated? skip-fields= group? ignore-case skip-chars= "
        "unique zero-terminated check-chars= | uniq"
    ),
    "cut": (
        "nszb=c=d=f= | bytes= characters= delimiter= fields= complement only-delimited output-delimiter= "
        "zero-terminated | path"
    ),
    "paste": "szd= | delimiters= serial zero-terminated | path",
    "join": (
        "iz a= e= j= o= t= v= 1= 2= | ignore-case check-order nocheck-order header zero-terminated | path"
    ),
    "comm": "123z | check-order nocheck-order output-delimiter= total zero-terminated | path",
    "tr": "cCdst | complement delete squeeze-repeats truncate-set1 | text",
    "rev": "| | path",
    "fold": "bsw= | bytes spaces width= | path",
    "fmt": "cstuw=p=g= | width= | path",
    "column": (
        "texJlc=s=o=n=N=H=R=T=W= | table separator= output-separator= columns= json table-columns= "
        "table-name= | path"
    ),
    "expand": "it= | initial tabs= | path",
    "unexpand": "at= | all first-only tabs= | path",
    "pr": "adtTnmFf0123456789 h= l= w= o= | columns= | path",
    "cmp": "blsi=n= | print-bytes ignore-initial= verbose bytes= quiet silent | path",
    "diff": (
        "abBcdeEHilnNpqrstTuwyZ0123456789 C= U= F= I= L= S= x= X@ W= D= | normal brief "
        "report-identical-files context? unified? ed rcs side-by-side width= left-column "
        "suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab "
        "tabsize= recursive no-dereference new-file unidirectional-new-file ignore-file-name-case "
        "exclude= exclude-from@ starting-file= from-file@ to-file@ ignore-case ignore-tab-expansion "
        "ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines "
        "ignore-matching-lines= text strip-trailing-cr minimal horizon-lines= speed-large-files color? "
        "palette= | path"
    ),
    "colordiff": "urNywbBq U= | unified? recursive brief | path",
    "sdiff": "bBilstWw=E | width= suppress-common-lines left-column | path",
    "diff3": "aAeEimTxX3 | | path",
    "grep": (
        "abcEFGHhIiLlnoPqRrsTUvwxyzZu0123456789 A= B= C= D= d= e= m= f@ | extended-regexp fixed-strings "
        "basic-regexp perl-regexp regexp= file@ ignore-case no-ignore-case word-regexp line-regexp "
        "null-data no-messages invert-match max-count= byte-offset line-number line-buffered "
        "with-filename no-filename label= only-matching quiet silent binary-files= text directories= "
        "devices= recursive dereference-recursive include= exclude= exclude-from@ exclude-dir= "
        "files-without-match files-with-matches count initial-tab null before-context= after-context= "
        "context= group-separator= color? colour? binary unix-byte-offsets | text path"
    ),
    "rg": (
        "abcCdFhHiIlLnNoPpqsSuUvwxzV0. A= B= C= e= f@ g= j= m= M= r= t= T= E= d= z~ | regexp= file@ "
        "after-context= before-context= context= binary no-binary block-buffered byte-offset "
        "case-sensitive color= colors= column no-column context-separator= count count-matches crlf "
        "debug encoding= engine= files files-with-matches files-without-match fixed-strings follow glob= "
        "glob-case-insensitive heading no-heading hidden no-hidden iglob= ignore-case ignore-file@ "
        "include-zero invert-match json line-buffered line-number no-line-number line-regexp "
        "max-columns= max-columns-preview max-count= max-depth= max-filesize= mmap multiline "
        "multiline-dotall no-config no-filename no-ignore no-ignore-dot no-ignore-global "
        "no-ignore-parent no-ignore-vcs no-messages null null-data one-file-system only-matching "
        "passthru path-separator= pcre2 pretty print0 quiet regex-size-limit= replace= smart-case sort= "
        "sortr= stats stop-on-nonmatch text threads= trim type= type-add= type-clear= type-list "
        "type-not= unrestricted vimgrep with-filename word-regexp no-require-git field-match-separator= "
        "hyperlink-format= search-zip~ pre! pre-glob= hostname-bin! | text path"
    ),
    "ag": (
        "acdfhHilLnoqQrsStuUvwWz0123456789 A= B= C= G= g= m= p@ | ackmate nobreak break color nocolor "
        "column count depth= files-with-matches files-without-matches group nogroup heading noheading "
        "hidden ignore= ignore-case ignore-dir= literal match nonumbers numbers only-matching stats "
        "smart-case vimgrep word-regexp max-count= path-to-ignore@ pager! | text path"
    ),
    "ack": (
        "ilnoQvwcshHfgaLr A= B= C= m= | pager! type= ignore-dir= color nocolor literal group nogroup "
        "heading noheading | text path"
    ),
    "fd": (
        "HIuasiFpLl0q d= t= e= E= S= j= g c= x! X! | hidden no-ignore unrestricted case-sensitive "
        "ignore-case glob regex fixed-strings absolute-path list-details follow full-path max-depth= "
        "min-depth= exact-depth= type= extension= exclude= size= changed-within= changed-before= color= "
        "threads= max-results= quiet print0 strip-cwd-prefix base-directory@ search-path@ exec! "
        "exec-batch! | text path"
    ),
    "jq": (
        "acCehMnrRsSj f@ L! 1234567 | arg= argjson= args jsonargs compact-output color-output "
        "monochrome-output exit-status null-input raw-output raw-output0 raw-input slurp sort-keys "
        "join-output tab indent= ascii-output stream stream-errors seq unbuffered slurpfile@ rawfile@ "
        "from-file@ | jq"
    ),
    "yq": (
        "rceCMnPNjs~o=p=I= i~ | raw-output compact-output output-format= input-format= prettyPrint "
        "colors no-colors exit-status null-input no-doc indent= inplace~ yaml-output from-file@ | jq"
    ),
    "xmllint": (
        "| noout format xpath= valid~ schema@ nonet html encode= c14n recover huge output> shell! | path"
    ),
    "xxd": "abeEiuC c= g= l= s= o= | cols= len= seek= bits uppercase include plain p | xxd",
    "od": (
        "abcdfilosxv A= j= N= t= w? S= | address-radix= skip-bytes= read-bytes= format= "
        "output-duplicates width? strings? | path"
    ),
    "hexdump": "bcCdovx n= s= e= f@ | canonical length= skip= no-squeezing | path",
    "hd": "bcCdovx n= s= | | path",
    "strings": "afwn=t=e=o0123456789 | all bytes= radix= encoding= print-file-name | path",
    "base64": "di w= | decode ignore-garbage wrap= | path",
    "base32": "di w= | decode ignore-garbage wrap= | path",
    "basenc": "di w= | base64 base64url base32 base16 z85 decode wrap= | path",
    "md5sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "sha1sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "sha224sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "sha256sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "sha384sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "sha512sum": "bctwz | binary check tag text zero ignore-missing quiet status strict warn | path",
    "b2sum": "bctwzl= | binary check tag text zero length= quiet status | path",
    "shasum": "bctpUa= | algorithm= binary check text | path",
    "md5": "qr s= | | path",
    "cksum": "a= | algorithm= check | path",
    "sum": "rs | | path",
    "zcat": "fqv | | path",
    "bzcat": "qs | | path",
    "xzcat": "qv | | path",
    "zgrep": "ciEFhHlnoqvw A= B= C= e= | | text path",
    "seq": "wf=s= | equal-width format= separator= | text",
    "expr": "| | text",
    "factor": "h | exponents | text",
    "numfmt": (
        "zd= | to= from= suffix= padding= field= format= header? grouping round= invalid= delimiter= "
        "from-unit= to-unit= | text"
    ),
    "true": "| | text",
    "false": "| | text",
    ":": "| | text",
    "sleep": "| | text",
    "yes": "| | text",
    "tty": "s | silent quiet | none",
    "uname": (
        "amnoprsvi | all kernel-name nodename kernel-release kernel-version machine processor "
        "hardware-platform operating-system | none"
    ),
    "arch": "| | none",
    "nproc": "| all ignore= | none",
    "whoami": "| | none",
    "id": "agGnruzZ | group groups name real user zero context | text",
    "groups": "| | text",
    "logname": "| | none",
    "who": "abdHlmpqrsTtu | all boot count heading | none",
    "w": "hsfoi | no-header short from | text",
    "uptime": "ps | pretty since | none",
    "free": "bkmgthlwvs~c= | bytes kilo mega giga tebi human total wide seconds~ count= si | none",
    "vmstat": "adfmnstwS= | active stats slabs timestamp wide unit= | text",
    "lscpu": "aebcpJxyB | all extended? json online parse? hex | none",
    "lsblk": (
        "abdfilmnoprstJPST o= e= I= | all bytes nodeps fs json list output= paths raw tree perms "
        "topology | path"
    ),
    "locale": "ackm | all-locales charmaps category-name keyword-name | text",
    "getconf": "av= | | text",
    "cal": "13jmsywYn= | three year monday sunday | text",
    "tput": "T= | | tput",
    "which": "as | all skip-alias skip-functions tty-only read-alias | text",
    "whereis": "bmsuglB@ | | text",
    "type": "afptP | | text",
    "hash": "ltdp! | | none",
    "hostname": "fsIAd | fqdn short all-ip-addresses long | none",
    "whatis": "drwlv | | text",
    "nm": (
        "aABCDdgnoPprSsuVvXt=f= | all defined-only undefined-only demangle? extern-only dynamic "
        "print-size size-sort reverse-sort format= plugin! | path"
    ),
    "objdump": (
        "adDfhprRsStTxwCzj=M=b=m= | disassemble? syms all-headers section-headers headers demangle? "
        "source line-numbers no-show-raw-insn reloc | path"
    ),
    "readelf": (
        "aehlnrsSuVWdDgAtx=p= | all file-header program-headers section-headers symbols dynamic notes "
        "wide relocs | path"
    ),
    "size": "ABdoxt | format= radix= totals | path",
    "tokei": "fcs=e=t=o= | files sort= exclude= types= output= hidden | path",
    "scc": (
        "acwf=i=s=x= | by-file format= exclude-dir= include-ext= no-complexity no-cocomo sort= wide | path"
    ),
    "shellcheck": (
        "aCxs=S=e=f=o= | check-sourced color? exclude= format= shell= severity= enable= norc "
        "external-sources | path"
    ),
    "bat": (
        "pAnul=r=H=f | plain language= line-range= number style= color= pager! theme= decorations= wrap= "
        "tabs= show-all highlight-line= list-languages list-themes terminal-width= file-name= | path"
    ),
    "zipinfo": "12smlvhtTzC | | path",
    "pgrep": (
        "acflnovwxLiuU=G=P=s=t=d=g= | full list-name list-full count exact newest oldest parent= euid= "
        "uid= | text"
    ),
    "pidof": "csxq | | text",
    "pstree": "aAchHglnpstuZ | | text",
    "dpkg": (
        "lLsSpI | list listfiles status search print-architecture print-avail get-selections version "
        "compare-versions | text"
    ),
    "dpkg-query": "WlLsSf= | show list listfiles status search showformat= | text",
    "rpm": "qailfRcdp~ | query all info list file requires version whatprovides queryformat= | text",
    "ldconfig": "p | print-cache | none",
    "tsort": "| | path",
    "shuf": (
        "ezn=i=r o> | echo head-count= input-range= repeat zero-terminated output> random-source@ | path"
    ),
    "look": "adft= | | text path",
    "pathchk": "pP | portability | path",
    "sw_vers": "| productVersion buildVersion productName | none",
}
"""Programs that read: any option that is not listed is more than a read."""

VERSION_PROGRAMS = frozenset(
    """
    python pypy node npm npx bun deno pip uv ruff mypy black isort
    git gh ruby gem bundle perl php lua luajit gcc g++ clang clang++ cc c++ make cmake ninja meson ld as
    ar gdb docker bash sh zsh fish dash ssh curl wget openssl gpg vim nvim vi nano emacs tmux screen
    sqlite3 psql mysql redis-cli tsc eslint prettier jest tar gzip zip unzip rsync sed awk find xargs
    ffmpeg ffprobe pandoc protoc jq yq rg fd bat less man bc dc tree file systemctl env nc socat strace
    ltrace valgrind shfmt hadolint actionlint
    """.split()
)
"""Programs that may be asked for their version, and print it without running or writing anything."""

VERSION_OPTIONS = frozenset({"--version", "-version", "-V", "--help"})
SHORT_VERSION_PROGRAMS = frozenset("node npm npx php ruby perl openssl tsc gcc clang".split())

PASSING_FILTERS = frozenset("cat tee head tail sort uniq grep tac rg egrep fgrep wc ts stdbuf".split())
"""Filters that print some of the lines they read, unchanged."""

NUMBER_PRINTERS = frozenset({"wc", "nproc"})
"""Programs that print nothing but numbers, unless they are given files."""

WIDE_SEARCHERS = frozenset({"rg", "ag", "ack", "git grep"})
SEARCHERS = WIDE_SEARCHERS | {"grep", "zgrep"}
LISTERS = frozenset("ls dir vdir tree eza du stat readlink realpath".split())
"""Readers that show names and sizes, never content."""

METADATA_READERS = frozenset(
    "ls dir vdir tree eza du df stat file wc grep rg ag ack readlink realpath diff cmp".split()
)
"""Readers that say something about files, or show only lines that were asked for."""

ALIASES = {
    "egrep": "grep",
    "fgrep": "grep",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "original-awk": "awk",
    "exa": "eza",
    "batcat": "bat",
    "fdfind": "fd",
    "ripgrep": "rg",
    "gsed": "sed",
    "ghead": "head",
    "gtail": "tail",
    "gls": "ls",
    "gsort": "sort",
    "gfind": "find",
    "gdate": "date",
    "gtar": "tar",
    "bsdtar": "tar",
    "apt-get": "apt",
    "aptitude": "apt",
    "yum": "dnf",
    "microdnf": "dnf",
    "mamba": "conda",
    "gradlew": "gradle",
    "mvnw": "mvn",
    "bzgrep": "zgrep",
    "xzgrep": "zgrep",
    "hostnamectl": "hostname",
    "ncat": "nc",
    "netcat": "nc",
    "nc.openbsd": "nc",
    "nc.traditional": "nc",
    "[": "test",
    ".": "source",
    "typeset": "declare",
    "local": "declare",
    "readarray": "mapfile",
    "chdir": "cd",
    "docker-compose": "docker",
    "podman": "docker",
    "nerdctl": "docker",
    "buildah": "docker",
    "oc": "kubectl",
    "tofu": "terraform",
    "pip3": "pip",
    "pipx": "pip",
    "gmake": "make",
    "pnpm": "npm",
    "yarn": "npm",
    "bun": "npm",
    **dict.fromkeys("7za 7zr 7zz p7zip".split(), "7z"),
    **dict.fromkeys("c89 c99 clang++ c++".split(), "gcc"),
    **dict.fromkeys("xetex uplatex platex context".split(), "tex"),
    "octave-cli": "octave",
}
"""Other names of a program that is graded the same way."""

DECODERS = frozenset(
    "base64 base32 basenc uudecode xxd gunzip zcat bzcat xzcat openssl gpg rev hexdump od".split()
)
"""Programs whose output was hidden in their input."""

TRANSFORMERS = frozenset(
    """
    tr sed awk cut paste fold fmt column expand jq yq perl python ruby iconv nl join comm printf
    numfmt strings shuf tac gzip xz zstd bzip2 diff csvcut factor expr dc bc m4 node php
    """.split()
)
"""Filters that print something else than what they read."""
