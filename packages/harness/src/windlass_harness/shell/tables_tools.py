"""Options of the tools that have a rule of their own.

Literal data only.
"""

XARGS_OPTIONS = (
    "0oprtx a@ d= E= e? I= i? L= l? n= P= s= | null arg-file@ delimiter= eof? replace? max-lines? "
    "max-args= open-tty max-procs= interactive no-run-if-empty max-chars= show-limits verbose exit "
    "process-slot-var~ | command"
)
PARALLEL_OPTIONS = (
    "0kmnqtuvX j= n= N= L= I= a@ d= C= S! P= s= | jobs= keep-order null arg-file@ colsep= delimiter= "
    "dry-run eta bar progress group line-buffer tag halt= joblog> results> retries= timeout= max-args= "
    "xargs sshlogin! sshloginfile! onall nonall env= workdir= basefile! return= cleanup pipe pipepart "
    "no-notice will-cite quote verbose ungroup shuf resume | command"
)
FIND_TESTS = {
    **dict.fromkeys(
        """
        ( ) ! , -a -o -and -or -not -true -false -print -print0 -ls -prune -quit -depth -d -daystart
        -empty -executable -readable -writable -follow -mount -xdev -nogroup -nouser -warn -nowarn
        -noleaf -ignore_readdir_race -noignore_readdir_race
        """.split(),
        "",
    ),
    **dict.fromkeys(
        """
        -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype
        -size -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -perm -user -group -uid
        -gid -links -inum -fstype -printf -used -lname -ilname -newermt -newerat -newerct -context
        -E
        """.split(),
        "=",
    ),
    **dict.fromkeys("-newer -anewer -cnewer -samefile -newermm -neweraa -files0-from".split(), "@"),
    **dict.fromkeys("-fprint -fprint0 -fprintf -fls".split(), ">"),
    "-delete": "!",
}
"""Tests and actions of find; the sign says what the next word is."""

PYTHON_MODULES = {
    **dict.fromkeys("json.tool tokenize ast dis calendar".split(), "read"),
    **dict.fromkeys("timeit pdb trace cProfile profile runpy code doctest pyperf".split(), "code"),
    **dict.fromkeys(
        "pty idlelib idlelib.idle antigravity webbrowser telnetlib smtpd ftplib asyncio".split(), "run"
    ),
    **dict.fromkeys("http.server SimpleHTTPServer".split(), "network"),
    **dict.fromkeys(
        "pip pipx twine poetry uv flit hatch pdm black ruff mypy pytest isort flake8 coverage sphinx pylint "
        "tox nox awscli ansible".split(),
        "program",
    ),
}
"""Modules that `python -m` runs: what kind of program each one is."""

SCRIPT_PROGRAMS = {"manage.py": "django-admin", "artisan": "artisan", "setup.py": "twine"}
"""Scripts that are known programs under a project's own name."""

CURL_OPTIONS = (
    "#0123468afgGiIjJklLMnNpqRsSvVZ: d! F! T! K! x! X= H= A= b@ c> C= D> e= E@ h= m= o> O P= Q! r= t= u= "
    "U= w= y= Y= z= | silent show-error fail fail-with-body fail-early location location-trusted head "
    "include verbose compressed output> remote-name remote-name-all remote-header-name output-dir> "
    "create-dirs url= header= user-agent= referer= max-time= connect-timeout= retry= retry-delay= "
    "retry-max-time= retry-all-errors retry-connrefused range= http1.0 http1.1 http2 http3 tlsv1.0 "
    "tlsv1.1 tlsv1.2 tlsv1.3 tls-max= ssl-reqd insecure ipv4 ipv6 globoff get request= write-out= "
    "progress-bar no-progress-meter parallel parallel-max= limit-rate= max-filesize= max-redirs= "
    "remote-time no-buffer no-keepalive keepalive-time= tcp-nodelay path-as-is cookie@ cookie-jar> "
    "dump-header> stderr> trace> trace-ascii> trace-time etag-save> etag-compare@ cacert@ capath@ user= "
    "oauth2-bearer= basic digest anyauth time-cond= continue-at= speed-limit= speed-time= styled-output "
    "clobber no-clobber next junk-session-cookies list-only data! data-raw! data-binary! data-urlencode! "
    "data-ascii! json! form! form-string! upload-file! config! proxy! socks4! socks4a! socks5! "
    "socks5-hostname! preproxy! proxy-user! proxy-header! noproxy! resolve! connect-to! unix-socket! "
    "abstract-unix-socket! doh-url! dns-servers! interface! quote! postquote! mail-from! mail-rcpt! "
    "mail-auth! netrc! netrc-file! netrc-optional! engine! cert! key! cert-type! key-type! pass! "
    "libcurl! variable! expand-url! expand-data! telnet-option! krb! delegation! negotiate! ntlm! "
    "haproxy-protocol! proto-default! egd-file! random-file! crlfile! aws-sigv4! ftp-port! ftp-method! "
    "url-query! ssl-sessions! upload-flags! pubkey! hostpubmd5! unix! | url"
)
WGET_OPTIONS = (
    "bcdEFhHkKLmNnpqrSvVx46 O> o> a> P> i@ B= t= T= w= Q= l= A= R= D= I= X= U= e! nc nd nH np nv nc | "
    "quiet verbose no-verbose output-document> output-file> append-output> directory-prefix> input-file@ "
    "tries= timeout= wait= random-wait waitretry= continue timestamping no-clobber recursive level= "
    "mirror page-requisites convert-links no-parent span-hosts accept= reject= domains= user-agent= "
    "header= referer= max-redirect= spider server-response no-check-certificate no-directories "
    "no-host-directories cut-dirs= progress= show-progress no-cookies load-cookies@ save-cookies> "
    "limit-rate= quota= inet4-only inet6-only content-disposition trust-server-names "
    "restrict-file-names= adjust-extension https-only no-proxy no-hsts -nc -nd -nH -np -nv "
    "ca-certificate@ user= compression= post-data! post-file! method! body-data! body-file! use-askpass! "
    "execute! config! http-user! http-password! password! proxy! proxy-user! proxy-password! ftp-user! "
    "ftp-password! certificate! private-key! bind-address! warc-file! rejected-log! input-metalink! "
    "hsts-file! egd-file! random-file! crl-file! dns-servers! secure-protocol= | url"
)
SED_OPTIONS = (
    "nErsuz e= f@ i~ l= b | quiet silent regexp-extended expression= file@ in-place~ line-length= "
    "null-data posix separate unbuffered zero-terminated sandbox debug follow-symlinks | none"
)
AWK_OPTIONS = (
    "F= v= bcCghkMnNOPrSstV f@ e= E! i! l! o! p! D! d! L? W! | field-separator= assign= file@ source= "
    "re-interval posix traditional sandbox characters-as-bytes non-decimal-data lint? version csv exec! "
    "include! load! dump-variables! pretty-print! profile! debug! | none"
)
SSH_OPTIONS = (
    "46aCgKkNnqsTtVvxXYyAfGM B= b= c= D! E> e= F! I! i= J= L! l= m= O! o= p= Q= R! S! W! w! | | host code"
)
PS_OPTIONS = (
    "aAcdefFHjlLmMNTvVwyZ C= G= g= o= O= p= q= s= t= u= U= | forest headers no-headers sort= pid= ppid= "
    "user= format= cols= width= columns= lines= rows= group= sid= tty= deselect context cumulative "
    "quick-pid= Group= User= | ps"
)
DATE_OPTIONS = (
    "uRjn I? d= r@ f@ v= s= | utc universal date= reference@ file@ iso-8601? rfc-3339= rfc-email "
    "rfc-2822 debug resolution set= | text"
)
TAR_RISKY = (
    "--to-command* --checkpoint-action* -I* --use-compress-program* --rsh-command* --info-script* -F "
    "--new-volume-script* --rmt-command* -P --absolute-names --delete --remove-files --unlink-first -U "
    "--recursive-unlink --overwrite-dir --transform=*e --xform=*e --files-from=/* -T/* --one-top*=/* "
    "--one-top*=~* --one-top*=..* -C/* -C~* -C..*"
)
