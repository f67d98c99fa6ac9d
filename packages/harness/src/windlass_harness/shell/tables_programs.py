"""Programs by what they do: destroyers, writers, and those that need care.

Literal data only.
The form of a description is in `options.py`.
"""

DANGEROUS = {
    "destructive": "rm unlink shred srm wipe scrub truncate rimraf trash trash-put trash-empty grm",
    "destructive/priv": (
        "sudo su doas pkexec runuser sudoedit gosu su-exec newgrp sg setpriv capsh run0 dzdo sux kdesudo "
        "gksudo gksu please super calife ksu machinectl nsenter aa-exec systemd-nspawn sudo-rs sudoreplay "
        "userhelper pkttyagent beesu kdesu tsu tsudo"
    ),
    "destructive/device": (
        "dd mkfs mkfs.* mke2fs fdisk sfdisk cfdisk sgdisk gdisk parted gparted wipefs mount umount losetup "
        "cryptsetup mkswap swapon swapoff blkdiscard hdparm badblocks debugfs e2fsck fsck fsck.* tune2fs "
        "resize2fs xfs_* zpool zfs lvremove vgremove pvremove lvcreate lvresize vgcreate pvcreate mdadm "
        "partprobe eject diskutil fstrim dmsetup kpartx nvme flashrom fusermount fusermount3 pivot_root "
        "mknod ddrescue dcfldd dc3dd newfs sg_format btrfs hdiutil fdformat mkdosfs mkntfs switch_root "
        "restic borg grub-install grub-mkconfig update-grub efibootmgr dracut update-initramfs mkinitcpio "
        "fwupdmgr hwclock growpart e2label smartctl qemu-nbd nbd-client pvresize pvmove vgextend vgreduce "
        "vgrename vgchange lvextend lvreduce lvrename lvconvert lvchange bcache make-bcache integritysetup "
        "veritysetup tpm2_clear sedutil-cli isohybrid mformat mdel mdeltree fatlabel ntfsresize ntfsclone "
        "ntfsfix partclone.* partimage testdisk photorec extundelete swaplabel zerofree grub-reboot "
        "grub-set-default grub2-* bootctl flashcp flash_erase nandwrite esptool esptool.py avrdude dfu-util "
        "openocd st-flash fastboot"
    ),
    "destructive/process": (
        "killall killall5 pkill shutdown reboot halt poweroff telinit xkill skill slay kexec fuser init "
        "xdotool snice tskill wtype ydotool cliclick scanmem pmset"
    ),
    "destructive/perm": (
        "useradd userdel usermod groupadd groupdel groupmod passwd chpasswd chage chsh chfn visudo vipw "
        "vigr adduser deluser addgroup delgroup gpasswd newusers setfacl chattr setcap iptables ip6tables "
        "iptables-restore nft ufw firewall-cmd ebtables arptables setenforce semanage setsebool chcon "
        "restorecon auditctl apparmor_parser aa-disable aa-complain dscl spctl csrutil update-alternatives "
        "alternatives authconfig pwconv icacls takeown cacls attrib lchsh pfctl grpconv pwunconv faillock "
        "pam-auth-update tailscale wg wg-quick openvpn ifup ifdown brctl tc vconfig rfkill dhclient dhcpcd "
        "udhcpc wpa_supplicant wpa_cli iwctl iwpriv ethtool macchanger networksetup scutil systemsetup "
        "ovs-vsctl ipset conntrack ipvsadm tunctl strongswan ipsec zerotier-cli netplan authselect adcli "
        "sssctl pam_tally2 aa-enforce aa-teardown aa-remove-unknown sshuttle resolvconf userdbctl homectl "
        "newuidmap newgidmap pwck grpck smbpasswd pdbedit htpasswd kadmin kadmin.local ldapmodify "
        "ldapdelete ldapadd ldappasswd samba-tool tccutil dseditgroup sysadminctl pwpolicy chflags setfattr"
    ),
    "destructive/persist": (
        "at batch launchctl chkconfig update-rc.d rc-update insmod modprobe rmmod kmod depmod systemd-run "
        "schtasks anacron rc-service initctl start-stop-daemon invoke-rc.d dkms loadkeys update-binfmts "
        "incron incrontab fcron fcrontab runit s6-svc crond atd systemd-tmpfiles systemd-sysusers "
        "systemd-firstboot openvt deallocvt"
    ),
    "read/secret": (
        "printenv security secret-tool keyctl op bw lpass aws-vault ssh-add gopass pass chamber sops "
        "unshadow mimikatz ssh-agent keepassxc-cli vault doppler infisical gnome-keyring kwallet-query age "
        "rage dotenv xclip xsel pbpaste wl-paste screencapture scrot gnome-screenshot maim grim flameshot "
        "hashcat john hydra ophcrack secretsdump.py lazagne chntpw samdump2 ssh-keysign gpg-connect-agent "
        "gpg-preset-passphrase klist kinit ktutil kdestroy dashlane dcli rbw enpass-cli envchain berglas "
        "saml2aws aws-okta credstash bitwarden kpcli pass-otp oathtool yubico-piv-tool ykman logkeys xinput "
        "showkey arecord evtest"
    ),
    "destructive/exfil": (
        "wall write telnet ftp tftp sftp lftp ncftp mail mailx sendmail mutt msmtp swaks rclone croc "
        "wormhole ngrok cloudflared chisel frpc frps localtunnel bore s-nail nail ssmtp gsutil mc s3cmd "
        "azcopy smbclient cadaver finger whois rlogin rsh rcp uucp kermit rz sz transfer.sh curlftpfs sshfs "
        "bitsadmin proxychains proxychains4 torify tor hping3 nmap masscan ettercap bettercap tcpdump "
        "tshark dumpcap wireshark socat nc pbcopy wl-copy psftp pscp plink putty ncftpput ncftpget yafc "
        "smbget smbmap rpcclient impacket-* crackmapexec netexec evil-winrm arpspoof dsniff sqlmap nikto "
        "gobuster ffuf wfuzz dirb feroxbuster nuclei zmap nping iodine dnscat dnscat2 ptunnel stunnel "
        "stunnel4 tinyproxy mitmproxy mitmdump mitmweb pagekite serveo inlets rathole gost v2ray xray "
        "sslocal ssserver magic-wormhole sendme onionshare-cli onionshare syncthing unison duplicity "
        "duplicacy b2 mega-put megaput megatools gdrive dropbox minicom picocom tio efax sendfax lpr "
        "telegram-send slackcat ntfy pushover mosquitto_pub kcat kafkacat nats amqp-publish wscat websocat "
        "iftop netsniff-ng ngrep tcpflow p0f kismet aircrack-ng airodump-ng aireplay-ng httptunnel udp2raw "
        "udptunnel check_by_ssh git-shell asciinema"
    ),
    "destructive/shell": (
        "msfconsole msfvenom expect screen tmux byobu abduco dtach rlwrap unbuffer zellij ttyd gotty "
        "websocketd wish xterm rxvt urxvt alacritty kitty konsole gnome-terminal x-terminal-emulator rbash "
        "multitime logsave bpftrace gimp scapy sftp-server agetty getty rview rnano pry byebug irb ghci "
        "slsh pdb ipdb tmate upterm sshx teleconsole wetty shellinabox shellinaboxd sshd dropbear "
        "in.telnetd telnetd rshd rlogind vncserver x11vnc Xvnc tigervncserver xrdp teamviewer anydesk "
        "rustdesk code-server mosh-server etserver tasksh ginsh tdbtool bconsole vimtutor zathura openvt "
        "setlock softlimit envdir chpst setuidgid s6-setuidgid aoss terminator tilix xfce4-terminal "
        "mate-terminal lxterminal wezterm ghostty stterm guake tilda yakuake sakura terminology "
        "cool-retro-term warp-terminal"
    ),
    "destructive/data": (
        "dropdb dropuser createuser pg_restore mysqladmin mongorestore flyway liquibase influx etcdctl "
        "fdbcli reindexdb vacuumdb pg_resetwal pg_rewind droplang clusterdb pg_ctl pg_ctlcluster "
        "pg_dropcluster pg_upgrade mysqlimport mysql_secure_installation mysql_install_db myisamchk "
        "innochecksum mongoimport arangorestore kubeadm etcdutl ctr cloud-nuke aws-nuke"
    ),
    "destructive/remote-code": "uvx bunx lwp-download ansible-pull degit create-react-app basher bpkg",
    "destructive/tool-exec": (
        "osascript jjs cobc gcore run-parts logrotate chef-client chef-solo certbot needrestart "
        "run-mailcap plymouth gtester "
        "distccd opkg ipkg pkg_add perlbug ksshell msgfilter rtorrent"
    ),
    "destructive/windows": (
        "robocopy clear-eventlog move-item taskkill tskill stop-process del erase rd format diskpart "
        "vssadmin wbadmin bcdedit cipher regedit wmic iex invoke-expression remove-item ri "
        "set-executionpolicy invoke-webrequest iwr invoke-restmethod irm start-process new-service "
        "set-service stop-service remove-itemproperty set-itemproperty new-itemproperty clear-content "
        "clear-recyclebin format-volume clear-disk remove-partition set-mppreference add-mppreference mshta "
        "rundll32 regsvr32 certutil cmd powershell pwsh wscript cscript installutil msiexec msbuild "
        "forfiles psexec schtasks reg net net1 netsh sc fltmc wevtutil fsutil runas stop-computer "
        "restart-computer remove-aduser disable-netadapter add-type start-bitstransfer invoke-command "
        "invoke-wmimethod enter-pssession new-pssession set-content out-file add-content new-localuser "
        "add-localgroupmember disable-computerrestore remove-computer uninstall-package bitsadmin saps spps "
        "rp clc cmstp odbcconf ieexec register-scheduledtask unregister-scheduledtask new-scheduledtask "
        "set-scheduledtask start-scheduledtask disable-scheduledtask enable-scheduledtask "
        "register-scheduledjob remove-localuser set-localuser enable-localuser disable-localuser "
        "remove-localgroupmember set-acl new-netfirewallrule set-netfirewallprofile set-netfirewallrule "
        "remove-netfirewallrule disable-netfirewallrule remove-service restart-service start-service "
        "suspend-service clear-item clear-itemproperty rename-item copy-item set-item initialize-disk "
        "set-partition resize-partition set-disk repair-volume mount-diskimage dismount-diskimage "
        "enable-windowsoptionalfeature disable-windowsoptionalfeature enable-psremoting "
        "set-adaccountpassword new-aduser set-aduser add-adgroupmember remove-adgroupmember remove-adgroup "
        "remove-adcomputer remove-adobject disable-adaccount get-credential convertfrom-securestring "
        "get-clipboard export-clixml install-module install-package install-script install-windowsfeature "
        "uninstall-windowsfeature uninstall-module invoke-item start-job register-objectevent "
        "register-wmievent set-wmiinstance remove-wmiobject invoke-cimmethod remove-ciminstance stop-vm "
        "remove-vm restart-vm new-netroute remove-netroute set-dnsclientserveraddress set-netadapter "
        "enable-netadapter disable-bitlocker suspend-bitlocker unlock-bitlocker clear-bitlockerautounlock "
        "unblock-file send-mailmessage limit-eventlog remove-eventlog restore-computer rename-computer "
        "add-computer reset-computermachinepassword set-date set-timezone new-psdrive remove-psdrive "
        "debug-process new-object add-appxpackage remove-appxpackage remove-appxprovisionedpackage "
        "export-pfxcertificate set-processmitigation remove-mppreference set-smbshare new-smbshare "
        "remove-smbshare set-psrepository register-psrepository remove-module xcopy mklink ftype setx "
        "chkdsk sfc dism manage-bde gpupdate secedit cmdkey vaultcmd wusa pnputil bootrec reagentc wsl "
        "mstsc ntdsutil esentutl extrac32 makecab pcalua presentationhost xwizard msdt appvlp certoc cmdl32 "
        "desktopimgdownldr diskshadow dnscmd gpscript infdefaultinstall ldifde mavinject mofcomp mpcmdrun "
        "pcwrun printbrm rasautou rdrleakdiag regasm regini regsvcs runonce runscripthelper scriptrunner "
        "syncappvpublishingserver tttracer verclsid winrm winrs wlrmdr wsreset wuauclt logman tzutil w32tm "
        "cleanmgr nltest dsquery procdump psexec64 sdelete rubeus sharphound"
    ),
    "destructive/publish": (
        "vercel fastlane semantic-release release-it gh-pages deployctl dput debsign reprepro aptly web-ext "
        "clasp appcenter ghp-import sentry-cli toot tweet git-review"
    ),
}
"""Names that are dangerous whatever follows, by category; windows names in any case."""

DESTRUCTIVE_VERBS = frozenset(
    """
    abandon decommission del delete deploy deregister destroy drop erase evict expunge
    factoryreset flush kill nuke overwrite publish purge push reboot release remove reset revoke
    rm rollback shred shutdown submit teardown terminate truncate undeploy uninstall unpublish
    unregister upload wipe yank zap
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
    "safe_write": "tar rsync scp",
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
    "man": "-P* --pager -H* --html -X* --gxditview -C* --config-file -p* --preprocessor",
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
    "facter": "--custom-dir --external-dir -c --config",
    "mypy": "--python-executable --custom-typeshed-dir --install-types",
    "pylint": "--init-hook --load-plugins",
    "pyright": "--pythonpath --venvpath --typeshedpath",
    "tox": "-x --override",
    "jest": "--runner --testRunner --globalSetup --globalTeardown --transform --reporters",
    "vitest": "--globalSetup",
    "mocha": "-r --require --import",
    "ava": "--require --node-arguments",
    "webpack": "--require",
    "rollup": "-p --plugin",
    "stylelint": "--custom-syntax --custom-formatter --plugin",
    "rspec": "-r --require",
    "phpunit": "--bootstrap --extension",
    "java": "-javaagent* -agentlib* -agentpath* -Xrun* -XX:OnError* -XX:OnOutOfMemoryError*",
    "javac": "-processor* --processor* -J* -Xplugin*",
    "rustc": "linker=* -Clinker* --sysroot",
    "rustdoc": "--runtool* --test-runtool* --test-builder*",
    "ld": "-plugin* --plugin*",
    "nodemon": "-x --exec",
    "ts-node": "-r --require",
    "tsx": "--import --require",
    "jekyll": "-p --plugins",
    "protoc": "--plugin*",
    "just": "--shell --command -c",
    "fab": "-H --hosts",
    "sbt": "eval*",
    "ghc": "-F -pgm* -fplugin*",
    "nginx": "-s -c -g",
    "ldd": "./*",
    "fzf": "--bind* --preview* --listen* --with-shell*",
    "nnn": "-P -p",
    "ranger": "--cmd* --datadir* -c --confdir*",
    "lnav": "-c -f -i -e",
    "neofetch": "--config",
    "fastfetch": "--config -c",
    "exiftool": "-if* -config* -filename=/* -directory=/* -all=*",
    "dmidecode": "--dump-bin",
    "unsquashfs": "-d -dest -f -force",
    "check_ssl_cert": "--*-bin",
    "qemu-img": "commit rebase resize",
    "clamscan": "--remove* --move* -f --file-list*",
    "gs": "-dNOSAFER",
    "wkhtmltopdf": "--allow --enable-local-file-access --run-script --post*",
    "chromium": "--*-launcher* --*-cmd-prefix* --load-extension*",
    "google-chrome": "--*-launcher* --*-cmd-prefix* --load-extension*",
    "mvn": "-Dexec.* -Dmaven.ext.class.path*",
    "ansible-galaxy": "-s --server *://* git+*",
    "cowsay": "-f*",
    "cowthink": "-f*",
    "latexmk": "-e -r -latex* -pdflatex* -lualatex=* -xelatex=* -shell-escape -C -c",
    "dvips": "-R0",
    "distcc": "-wrapper",
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
        "bcCdDpsTv g! m= o! S= t> | directory mode= owner! group! target-directory> strip-program! "
        "strip verbose backup? compare preserve-timestamps | copy"
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
        "0123456789acDefghjklLnopqrstTuvwxXyzZ@ d! m! TT! T! P= b> i= x= | unzip-command! move! delete! "
        "filesync! copy test exclude= "
        "include= encrypt | write path"
    ),
    "unzip": "abcfjlLnopqtuvVwxXzZ :! K! d> P= x | | path",
    "7z": "| | text path",
    "ar": "| | text path",
    "split": (
        "a= b= C= dexn= l= t= uz | additional-suffix= bytes= lines= number= numeric-suffixes? verbose "
        "filter$ | copy"
    ),
    "csplit": "f> b= kn= qsz | prefix> digits= suffix-format= keep-files quiet silent | path",
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
