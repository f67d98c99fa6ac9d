"""Marks of program text that does more than compute, and what each category means.

Literal data only. The expressions use
only what Python and JavaScript read alike, and none of them can backtrack without bound.
"""

CODE_MARKS = (
    (
        "destructive/shell",
        r"\b(?:pty|/dev/tcp|reverse_shell|fsockopen|TCPSocket|IO::Socket|socket|gen_tcp|net\.(?:connect|"
        r"createServer|Socket))\b"
        r"|/dev/tcp/|/inet/",
    ),
    (
        "destructive/tool-exec",
        r"\b(?:system|popen\d?|exec[lvpe]*|spawn\w*|fork|execute|execFile\w*|execSync|shell_exec|"
        r"passthru|proc_open|pcntl_exec|"
        r"subprocess|child_process|startProcess|getRuntime|ProcessBuilder|Process|Open3|Kernel|"
        r"Sys\.command|"
        r"shell-command\w*|call-process\w*|make-process|start-process|async-shell-command|ansi-term|eshell|"
        r"WScript|ActiveXObject|posix_spawn|runtime\.exec|os\.cmd|run-program|run-shell-command|"
        r"run_command|syscall|"
        r"dlopen|ctypes|cffi|ffi|mmap|LoadLibrary|load_extension|loadlib|package\.loadlib|write18|syscmd|esyscmd|"
        r"directlua|enable-write18)\b|(?<!no-)(?<!no)shell-escape\b"
        r"|do shell script|%x[\[({!/|]|\bqx\b|!\s*/?(?:[a-z/]*/)?(?:ba|da|z|k|c|tc)?sh\b",
    ),
    (
        "destructive/eval",
        r"\b(?:eval|execfile|compile|__import__|__builtins__|__subclasses__|importlib|getattr|globals|"
        r"vars|builtins|marshal|pickle|"
        r"cPickle|codecs|base64|b64decode|b64_decode|base64_decode|unhexlify|fromhex|fromCharCode|atob|"
        r"unescape|pack|unpack|"
        r"decode64|instance_eval|class_eval|loadstring|assert_options|create_function|str_rot13|"
        r"gzinflate|runpy|"
        r"Invoke-Expression|iex|FromBase64String|EncodedCommand|constructor|Reflect|Function)\b|"
        r"\bchr\s*\(|(?<![.\w])load\s*\("
        r"|\b(?:source|include|require|import|load\w*|dofile|do|read\w*|scan|open|get)\b[^\n]{0,30}(?:https?|ftp)://",
    ),
    (
        "destructive",
        r"\b(?:unlink\w*|remove\w*|rmtree|rmdir\w*|rmSync|rm_rf?|rename\w*|replace_file|truncate\w*|"
        r"shutil|FileUtils|"
        r"delete_file|delete-file|delete-directory|File\.(?:delete|write|open|rename|unlink|new)|"
        r"IO\.(?:write|binwrite|popen)|"
        r"write_text|write_bytes|writeFile\w*|appendFile\w*|createWriteStream|file_put_contents|file_get_contents|download|readfile|fwrite|"
        r"fputs|fopen|"
        r"mkfifo|chmod|chown|symlink\w*|makedirs|os\.\w+|shutil\.\w+|fs\.\w+Sync|write-region|"
        r"save-buffer|io\.open|io\.output|deleteFile|deleteRecursively|deleteIfExists|Files\.\w+|"
        r"File\.(?:rm\w*|cp\w*|mkdir\w*)|"
        r"os\.remove|os\.rename|Deno\.(?:write\w*|remove\w*|run|Command)|Bun\.(?:write|spawn\w*)|kill|"
        r"shutdown|reboot)\b"
        r"|open\s*\(?[^()\n]{0,200},\s*(?:mode\s*=\s*)?['\"][rbt]{0,2}[wax+]|"
        r"open\s*\(?[^;\n]{0,120}['\"]\s*[+|]?>"
        r"|\brm\s*\(|\bimport\s+(?:[\w.]+\s*,\s*){0,8}(?:os|shutil|signal|posix|nt)\b|\bfrom\s+(?:os|shutil|posix|"
        r"signal)\b",
    ),
    (
        "destructive/exfil",
        r"\b(?:urllib\w*|requests|httpx|aiohttp|http\.client|httplib|ftplib|smtplib|telnetlib|paramiko|"
        r"asyncssh|curl_\w+|LWP|"
        r"XMLHttpRequest|WebSocket|OpenURI|open-uri|httpc|url-retrieve\w*|HTTP::\w+|Net::\w+|URI\.open|"
        r"Invoke-WebRequest|"
        r"DownloadString|DownloadFile|WebClient|xmlrpc\w*|socketserver|http\.server|"
        r"asyncio\.open_connection)\b"
        r"|\bfetch\s*\(|require\s*\(?\s*['\"](?:node:)?(?:net|http|https|http2|fs|fs/promises|dgram|tls|"
        r"dns|os|vm|cluster|worker_threads|"
        r"repl|module|inspector)['\"]|from\s+['\"](?:node:)?(?:net|http|https|fs|fs/promises|os|vm|"
        r"child_process)['\"]",
    ),
    (
        "read/secret",
        r"os\.environ|process\.env|\bENV\b|%ENV|\$_ENV|\$_SERVER|getenv|Deno\.env|Bun\.env|phpinfo|"
        r"\benviron\b"
        r"|id_rsa|id_ed25519|\.aws/|\.ssh/|/etc/shadow|\.netrc|\.git-credentials|['\"/]\.env\b",
    ),
)
"""Text of Python, Perl, Ruby, JavaScript, PHP, Lua and others; the first mark found names the category."""

EDITOR_MARKS = (
    (
        "destructive/tool-exec",
        r"!|\b(?:py|python|python3|py3|pyx|pyfile|lua|luafile|perl|ruby|tcl|mzscheme|term|terminal|shell|"
        r"sh|source|so|call|exe|execute|"
        r"system|jobstart|termopen|set\s+(?:shell|makeprg|grepprg|equalprg|formatprg|keywordprg)\S*|make|"
        r"grep|diffsplit|"
        r"normal|delcommand|cscope|packadd|runtime|pipe|target|attach|run|start|jit|compile|process)\b",
    ),
    (
        "destructive/outside",
        r"(?:^|[|:\s])(?:w|wq|wr|write|sav|saveas|x|up|update|wa|xa|wqa|mks\w*|mkv\w*|redir|dump|restore|"
        r"append)\b",
    ),
)
"""Commands of vi, ed, gdb and the like."""

SQL_MARKS = (
    (
        "destructive/tool-exec",
        r"\\!|\\copy|\\o\b|\\i\b|\\g\s|\\w\b|\\e\b|\\ef\b|(?:^|[;\s'\"])\.(?:shell|system|output|once|"
        r"import|save|backup|load|read|open|excel|"
        r"archive|restore|clone|log|trace|cd|dump\s*>)\b|load_extension|writefile|readfile|edit\s*\(|"
        r"fts3_tokenizer|xp_\w+|sp_\w+|\bPROGRAM\b|"
        r"\bOUTFILE\b|\bDUMPFILE\b|load_file|\bINFILE\b|\bLOAD\s+DATA\b|pg_read\w*|pg_ls\w*|lo_import|"
        r"lo_export|"
        r"dblink\w*|sys_exec|sys_eval|\bsystem\b|\bsource\b|\bpager\b|\btee\b|\bsh\b|\bEXEC(?:UTE)?\b|"
        r"\bDO\s+\$|plpython\w*|plperl\w*|http_get\w*",
    ),
    (
        "destructive/data",
        r"\b(?:DROP|DELETE|TRUNCATE|UPDATE|ALTER|GRANT|REVOKE|SHUTDOWN|KILL|PURGE|RENAME|REPLACE|VACUUM|"
        r"ATTACH|DETACH|REINDEX|FLUSH\w*|"
        r"SET\s+(?:GLOBAL|PERSIST)|RESET|CREATE\s+(?:USER|ROLE|EXTENSION|OR\s+REPLACE|LANGUAGE|TRIGGER|"
        r"EVENT|SERVER|FUNCTION)|COPY|"
        r"pg_terminate_backend|pg_cancel_backend|MERGE|OPTIMIZE|UNDROP|BACKUP|RESTORE|dropDatabase|drop|"
        r"deleteMany|"
        r"deleteOne|remove|updateMany|updateOne|insertMany|findOneAndDelete|renameCollection|"
        r"shutdownServer|adminCommand|runCommand|"
        r"del|unlink|flushall|flushdb|eval|config)\b",
    ),
    ("read/secret", r"pg_shadow|pg_authid|mysql\.user|\bpassword\w*\b|\bauth_token\w*\b|api_keys?\b"),
)
"""SQL and the commands of database clients; matched without regard to case."""

SHELL_MARKS = (
    r"(?:^|[\s=;:!|&`(\"',@+>])(?:/[\w.-]+)*/(?:ba|da|z|k|mk|c|tc|a|fi)?sh(?:$|[\s;:|&`)\"',<>-])"
    r"|(?:^|[\s=;:!|&`(\"',])(?:ba|da|z|k|mk|c|tc|a)?sh\s+-[a-z]*[cips]\b|!\s*(?:ba|da|z|k|c|tc)?sh\b|"
    r"(?:^|\s|=)exec\w*[:=\s]+(?:ba|da|z)?sh\b|/dev/tcp/"
    r"|os\.execute|os\.system|pty\.spawn|\b(?:system|exec|popen|spawn)\s*\(|`[^`]+`"
)
"""Text in an argument that gives a shell, whatever program it is given to."""

ESCAPE_MARKS = r"[:+]{0,3}!\s*[\w/.~]|:?shell\b|\.shell\b|\.system\b|\\!"
"""The way many interactive programs start a command: `!cmd`, `:!cmd`, `.shell cmd`."""

MESSAGES = {
    "read": "only reads inside the workspace",
    "safe_write": "creates or edits inside the workspace",
    "unknown/parse": "cannot be parsed with certainty; never guess",
    "unknown/type": "the command is not text",
    "unknown/empty": "nothing to run; reject rather than approve",
    "unknown/control": "control characters, bidi marks or look-alikes: what is seen is not what runs",
    "unknown/size": "too long or too deep to be reviewed",
    "unknown/dynamic": "a word is computed, so the effect is not literal",
    "unknown/quoting": "the command's name is hidden by quotes or escapes",
    "unknown/history": "history or job expansion",
    "unknown/outside": "reads outside the workspace",
    "unknown/option": "an option that is not known to be a read",
    "unknown/exec": "runs project code: as safe as the project",
    "unknown/inline": "inline interpreter code cannot be graded by a shell parser",
    "unknown/install": "fetches and may run third-party build code",
    "unknown/network": "outbound request to a literal host; the egress policy decides",
    "unknown/pager": "opens a pager, which can run a shell",
    "unknown/editor": "opens an editor, which can write and run",
    "unknown/program": "unknown program",
    "unknown/redefine": "names are redefined: the name no longer means what it says",
    "unknown/env": "an environment variable with an unknown effect",
    "unknown/endless": "may never end",
    "unknown/session": "changes the state of the shell",
    "unknown/search": "searches for something that looks like a secret",
    "unknown/pattern": "a custom pattern is unusable or matched as a warning",
    "unknown/error": "the grader failed on this command; treat it as unknown",
    "read/secret": "reads credentials",
    "read/ssrf": "metadata, local control sockets or private addresses",
    "destructive": "deletes, truncates or overwrites",
    "destructive/data": "databases, cloud, cluster",
    "destructive/device": "raw device or filesystem",
    "destructive/env-exec": "an environment variable changes what the program runs",
    "destructive/eval": "text becomes code",
    "destructive/exfil": "sends data out",
    "destructive/git": "discards work or rewrites shared history",
    "destructive/git-exec": "git runs a configured program",
    "destructive/indirect": "the command word is computed and dangerous",
    "destructive/outside": "writes outside the workspace",
    "destructive/perm": "ownership, permissions, accounts, network or system settings",
    "destructive/persist": "runs later, outside this session",
    "destructive/policy": "tampers with this runtime's policy, journal or approvals",
    "destructive/priv": "privilege change",
    "destructive/process": "stops processes or the machine",
    "destructive/publish": "visible to other people and hard to take back",
    "destructive/remote-code": "downloaded text is executed",
    "destructive/shell": "gives a shell to somebody",
    "destructive/sync": "mirror that deletes at the target",
    "destructive/tool-exec": "an option or script of a tool executes a program",
    "destructive/windows": "cmd and PowerShell",
    "destructive/wrapper": "a prefix program runs a dangerous command",
}
"""Meaning of each category, as shown to a person."""
