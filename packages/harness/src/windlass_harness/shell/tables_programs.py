"""Programs by what they do: destroyers, writers, and those that need care.

Literal data only: the TypeScript twin is generated from these tables.
The form of a description is in `options.py`.
"""

DANGEROUS = {
    "destructive": "rm unlink shred srm wipe scrub truncate rimraf trash trash-put trash-empty grm",
    "destructive/priv": (
        "sudo su doas pkexec runuser sudoedit gosu su-exec newgrp sg setpriv capsh run0 dzdo sux kdesudo "
        "gksudo gksu please super calife ksu machinectl nsenter aa-exec"
    ),
    "destructive/device": (
        "dd mkfs mkfs.* mke2fs fdisk sfdisk cfdisk sgdisk gdisk parted gparted wipefs mount umount "
        "losetup cryptsetup mkswap swapon swapoff blkdiscard hdparm badblocks debugfs e2fsck fsck fsck.* "
        "tune2fs resize2fs xfs_* zpool zfs lvremove vgremove pvremove lvcreate lvresize vgcreate "
        "pvcreate mdadm partprobe eject diskutil fstrim dmsetup kpartx nvme flashrom fusermount "
        "fusermount3 pivot_root mknod ddrescue dcfldd dc3dd newfs sg_format btrfs hdiutil fdformat "
        "mkdosfs mkntfs switch_root restic borg grub-install grub-mkconfig update-grub efibootmgr dracut "
        "update-initramfs mkinitcpio fwupdmgr hwclock growpart e2label smartctl"
    ),
    "destructive/process": (
        "killall killall5 pkill shutdown reboot halt poweroff telinit xkill skill slay kexec fuser init "
        "xdotool"
    ),
    "destructive/perm": (
        "useradd userdel usermod groupadd groupdel groupmod passwd chpasswd chage chsh chfn visudo vipw "
        "vigr adduser deluser addgroup delgroup gpasswd newusers setfacl chattr setcap iptables "
        "ip6tables iptables-restore nft ufw firewall-cmd ebtables arptables setenforce semanage "
        "setsebool chcon restorecon auditctl apparmor_parser aa-disable aa-complain dscl spctl csrutil "
        "update-alternatives alternatives authconfig pwconv icacls takeown cacls attrib lchsh pfctl "
        "grpconv pwunconv faillock pam-auth-update tailscale wg wg-quick openvpn ifup ifdown brctl tc "
        "vconfig rfkill"
    ),
    "destructive/persist": (
        "at batch launchctl chkconfig update-rc.d rc-update insmod modprobe rmmod kmod depmod "
        "systemd-run schtasks anacron rc-service initctl start-stop-daemon invoke-rc.d dkms loadkeys"
    ),
    "read/secret": (
        "printenv security secret-tool keyctl op bw lpass aws-vault ssh-add gopass pass chamber sops "
        "unshadow mimikatz ssh-agent keepassxc-cli vault doppler infisical gnome-keyring kwallet-query "
        "age rage dotenv xclip xsel pbpaste wl-paste screencapture scrot gnome-screenshot"
    ),
    "destructive/exfil": (
        "wall write telnet ftp tftp sftp lftp ncftp mail mailx sendmail mutt msmtp swaks rclone croc "
        "wormhole ngrok cloudflared chisel frpc frps localtunnel bore s-nail nail ssmtp gsutil mc s3cmd "
        "azcopy smbclient cadaver finger whois rlogin rsh rcp uucp kermit rz sz transfer.sh curlftpfs "
        "sshfs bitsadmin proxychains proxychains4 torify tor hping3 nmap masscanettercap bettercap "
        "tcpdump tshark dumpcap wireshark socat nc"
    ),
    "destructive/shell": (
        "msfconsole msfvenom expect screen tmux byobu abduco dtach rlwrap unbuffer zellij ttyd gotty "
        "websocketd wish xterm rxvt urxvt alacritty kitty konsole gnome-terminal x-terminal-emulator "
        "rbash multitime logsave bpftrace gimp scapy sftp-server agetty getty rview rnano pry byebug irb "
        "ghci slsh pdb ipdb"
    ),
    "destructive/data": (
        "dropdb dropuser createuser pg_restore mysqladmin mongorestore flyway liquibase influx etcdctl "
        "fdbcli reindexdb vacuumdb pg_resetwal pg_rewind"
    ),
    "destructive/remote-code": "uvx bunx",
    "destructive/tool-exec": "osascript jjs cobc gcore run-parts",
    "destructive/windows": (
        "robocopy clear-eventlog move-item taskkill tskill stop-process del erase rd format diskpart "
        "vssadmin wbadmin bcdedit cipher regedit wmic iex invoke-expression remove-item ri "
        "set-executionpolicy invoke-webrequest iwr invoke-restmethod irm start-process new-service "
        "set-service stop-service remove-itemproperty set-itemproperty new-itemproperty clear-content "
        "clear-recyclebin format-volume clear-disk remove-partition set-mppreference add-mppreference "
        "mshta rundll32 regsvr32 certutil cmd powershell pwsh wscript cscript installutil msiexec "
        "msbuild forfiles psexec schtasks reg net net1 netsh sc fltmc wevtutil fsutil runas "
        "stop-computer restart-computer remove-aduser disable-netadapter add-type start-bitstransfer "
        "invoke-command invoke-wmimethod enter-pssession new-pssession set-content out-file add-content "
        "new-localuser add-localgroupmember disable-computerrestore remove-computer uninstall-package "
        "bitsadmin saps spps rp clc cmstp odbcconf ieexec"
    ),
    "destructive/publish": "vercel fastlane semantic-release",
}
"""Names that are dangerous whatever follows, by category; windows names in any case."""

DESTRUCTIVE_VERBS = frozenset(
    """
    del delete deploy destroy drop erase factoryreset flush kill nuke overwrite publish purge push
    reboot release remove revoke rm rollback shutdown submit teardown terminate truncate undeploy
    uninstall unpublish upload wipe
    """.split()
)
"""Words that, as a subcommand or a target, say that something is destroyed or made public."""

CAUTIOUS = {
    "unknown/exec": (
        "make cmake ninja meson bazel gradle gradlew mvn ant sbt javac java cargo go rustc gcc g++ cc "
        "c++ clang clang++ ld as pytest tox nox unittest ruff black isort flake8 pylint mypy pyright "
        "pyre bandit eslint tsc jest vitest mocha ava karma webpack vite rollup esbuild swc turbo nx ng "
        "vue next nuxt astro gatsby playwright cypress rspec minitest phpunit golangci-lint staticcheck "
        "sphinx-build mkdocs hugo jekyll protoc buf coverage hatch flit pdm poetry uv tsx ts-node "
        "nodemon concurrently cross-env rake rails bundle mix elixirc erlc dotnet msbuild swiftc "
        "xcodebuild kotlinc scalac ghc cabal stack dune ocamlc nimble nim zig crystal dart flutter "
        "pre-commit source jupyter streamlit uvicorn gunicorn flask django-admin celery alembic just "
        "task invoke fab scons waf autoconf automake configure libtool doxygen typedoc storybook "
        "lint-staged stylelint markdownlint cargo-nextest npm npx gofmt vet"
    ),
    "unknown/install": (
        "apt apt-get aptitude dnf yum pacman apk zypper brew port snap flatpak pip gem composer conda "
        "mamba npm easy_install cpan cpanm luarocks opam rustup nvm pyenv rbenv asdf mise sdk choco "
        "winget scoop dpkg rpm nix nix-env"
    ),
    "unknown/network": (
        "ping ping6 traceroute tracepath mtr dig host nslookup drill ip ifconfig netstat ss arp route "
        "iwconfig nmcli aria2c yt-dlp youtube-dl gcloud aws az kubectl helm terraform gh docker ab wrk "
        "hey siege http-server lynx w3m links elinks httpie http https xh ssh-keyscan getent ntpdate "
        "chronyc iperf iperf3 speedtest resolvectl systemd-resolve git-lfs"
    ),
    "unknown/pager": (
        "less more most man info pg pinfo w3mman apropos zless zmore bzless xzless lnav moar slit tig "
        "lazygit ranger mc nnn vifm fzf top htop btop atop iotop glances journalctl dmesg nethogs"
    ),
    "unknown/editor": (
        "vi vim nvim nano emacs ed ex pico joe micro helix hx kak code subl gedit kate mg jed ne mcedit "
        "editor sensible-editor"
    ),
}
"""Programs that are never a plain read and not dangerous by themselves."""

EXEC_OPTIONS = {
    "man": "-P --pager -H --html -X --gxditview -C --config-file -p --preprocessor",
    "less": "-k --lesskey-file --lesskey-src -o -O --log-file -T --tag-file",
    "pytest": "-p --pdbcls --pastebin --confcutdir --rootdir --cov-config -c --override-ini",
    "eslint": (
        "--plugin --rulesdir --resolve-plugins-relative-to -c --config --format -f --parser --ext-config"
    ),
    "ctags": "-L --options --optlib-dir --_* -f -o",
    "dmesg": (
        "-C -c --clear --read-clear -n --console-level -D -E --console-on --console-off -F --file -H --human"
    ),
    "tcpdump": "-z -w",
    "logrotate": "-l --log -s --state -m --mail",
    "ab": "-p -u -T",
    "aria2c": "--on-* --conf-path -i --input-file --rpc* --enable-rpc --hook*",
    "valgrind": "--db-command",
    "nasm": "-P -p",
    "yt-dlp": (
        "--exec --config-location* --plugin-dirs --external-downloader --downloader --netrc* --cookies* "
        "--exec-before-download --use-postprocessor"
    ),
    "youtube-dl": "--exec --config-location --external-downloader --netrc --cookies",
    "gcc": "-wrapper -fplugin* -specs* -B*",
    "g++": "-wrapper -fplugin* -specs* -B*",
    "clang": "-wrapper -fplugin* -specs* -B*",
    "cc": "-wrapper -fplugin* -specs* -B*",
}
"""Options that make a program run, load or log what they name (where no full description exists)."""

WRITERS = {
    "touch": "acmhf d= t= r@ | date= reference@ time= no-create no-dereference | write",
    "mkdir": "pvZ m= | parents verbose mode= context? | write",
    "rmdir": "pv | parents verbose ignore-fail-on-non-empty | write",
    "cp": (
        "abdfHilLnPpRrsTuvxZ S= t> | archive backup? recursive force interactive link no-clobber "
        "no-dereference parents preserve? no-preserve= symbolic-link suffix= target-directory> "
        "no-target-directory update? verbose reflink? sparse= | copy"
    ),
    "mv": (
        "bfinTuvZ S= t> | backup? force interactive no-clobber suffix= target-directory> "
        "no-target-directory update? verbose | write"
    ),
    "ln": (
        "bdfFiLnPrsTv S= t> | backup? force interactive symbolic logical physical relative "
        "no-dereference suffix= target-directory> | link"
    ),
    "install": (
        "bcCdDpsTv g= m= o= S= t> | directory mode= owner= group= target-directory> strip-program! strip "
        "backup? compare preserve-timestamps | copy"
    ),
    "tee": "aip | append ignore-interrupts output-error? | write",
    "sponge": "a | | write",
    "patch": (
        "bcelNRstuEZ p= i@ d> o> r> F= D= B= V= Y= z= | dry-run input@ directory> output> reverse strip= "
        "batch forward ed! | write"
    ),
    "gzip": (
        "cdfhklnNqrtv123456789 S= | stdout decompress force keep list best fast recursive test verbose | "
        "write"
    ),
    "gunzip": "cfklnNqrtv S= | stdout force keep list recursive test verbose | write",
    "bzip2": "cdfkqstvz123456789 | stdout decompress force keep | write",
    "bunzip2": "cfkqsv | stdout force keep | write",
    "xz": "cdefklqtvz0123456789 T= | stdout decompress force keep threads= list test | write",
    "unxz": "cfkqv | stdout force keep | write",
    "zstd": "cdfklqrtv0123456789 T= o> D@ | stdout decompress force keep rm~ ultra | write",
    "unzstd": "cfkq o> | stdout force keep | write",
    "lz4": "cdfklmqv0123456789 | | write",
    "compress": "cdfrvb= | | write",
    "uncompress": "cfv | | write",
    "zip": (
        "0123456789acdDefghjklLmnopqrstTuvwxXyzZ@ TT! T! P= b= i= x= | unzip-command! test exclude= "
        "include= encrypt | write path"
    ),
    "unzip": "abcfjlLnopqtuvVwxXzZ d> P= x | | path",
    "7z": "| | text path",
    "ar": "| | text path",
    "split": (
        "a= b= C= dexn= l= t= uz | additional-suffix= bytes= lines= number= numeric-suffixes? verbose "
        "filter$ | copy"
    ),
    "csplit": "f= b= kn= qsz | prefix= | path",
    "mkfifo": "m=Z | mode= | write",
    "iconv": "cslf=t=o> | from-code= to-code= output> list | path",
    "dos2unix": "kqnob | | write",
    "unix2dos": "kqnob | | write",
    "rename": "nvfsio | | text write",
    "chgrp": "cfhRvLHP | recursive reference@ | text write",
    "sync": "df | data file-system | path",
    "indent": "o> | | write",
    "uudecode": "o> | output-file> | path",
    "uuencode": "m | | path text",
    "dtrx": "| | path",
    "unrar": "| | text path",
    "rar": "| | text write",
    "unar": "o> | output-directory> | path",
    "xdg-mime": "| | text",
    "git-lfs": "| | text",
    "pandoc": "sf=t=o>F!L! | from= to= output> filter! lua-filter! pdf-engine! standalone | path",
    "convert": "| | path write",
    "magick": "| | path write",
    "ffmpeg": "| | write",
    "prettier": (
        "wclu | write check config@ ignore-path@ plugin! list-different log-level= parser= "
        "stdin-filepath= | write"
    ),
    "gofmt": "lwdsr= | | write",
    "clang-format": "i | style= dry-run Werror | write",
    "rustfmt": "| check edition= emit= config-path@ | write",
    "shfmt": "lwdsi=ln= | | write",
    "logger": "| | text",
    "ranlib": "| | write",
    "strip": "o> | | write",
    "objcopy": "| | path write",
    "pax": "| | write",
    "mkisofs": "o> | | path",
    "genisoimage": "o> | | path",
}
"""Programs that create or change files they are told of; outside the tree that is dangerous."""
