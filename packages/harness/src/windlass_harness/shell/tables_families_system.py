"""System tools with subcommands: what makes a call of one dangerous.

Literal data only.
The form of a rule is in `tables_families_dev.py`.
"""

SYSTEM_FAMILIES = {
    "arp": {
        "destructive/perm": "-s; -d; --set; --delete; -f",
    },
    "brew": {
        "destructive": "uninstall; remove; rm; cleanup; autoremove; untap; reset; unlink; zap",
        "destructive/persist": "services; tap *; edit; developer; link --overwrite",
        "destructive/tool-exec": "sh; ruby; irb; bundle exec; exec",
    },
    "apt": {
        "destructive": (
            "remove; purge; autoremove; autopurge; clean; dist-upgrade; full-upgrade; --purge; autoclean"
        ),
        "destructive/tool-exec": (
            "-o; --option; -c; --config-file; changelog; edit-sources; --allow-unauthenticated; "
            "--force-yes; install ./*; install /*; source --compile; key"
        ),
    },
    "dnf": {
        "destructive": "remove; erase; autoremove; clean; history undo; downgrade; swap; distro-sync",
        "destructive/tool-exec": (
            "-c; --installroot; config-manager; localinstall; --repofrompath*; -x; --nogpgcheck; install "
            "/*; install ./*; --plugin*; --setopt*; --enableplugin*; --config*; copr; builddep"
        ),
    },
    "pacman": {
        "destructive": "-R*; -S*c*; -U; --remove; --upgrade",
        "destructive/tool-exec": "--config; --root; -r; --hookdir; --dbpath; -b",
    },
    "apk": {
        "destructive": "del; cache clean; fix",
        "destructive/tool-exec": "--root; -p; --allow-untrusted; -X; --repository*; --keys-dir; audit",
    },
    "zypper": {
        "destructive": "remove; rm; clean; dup; dist-upgrade",
        "destructive/tool-exec": (
            "--root; x; addrepo; ar; -R; --plus-repo; --no-gpg-checks; -c; --config; --reposd-dir; -D; -p"
        ),
    },
    "snap": {
        "destructive": "remove; disable; revert",
        "destructive/tool-exec": "--dangerous; --devmode; --classic; set; connect; run; alias; try",
    },
    "flatpak": {
        "destructive": "uninstall; remove; repair",
        "destructive/tool-exec": "override; run; remote-add",
    },
    "dpkg": {
        "destructive": (
            "-r; -P; --remove; --purge; -i; --install; --unpack; --configure; --force*; "
            "--set-selections; --clear-selections; -a; --admindir; --root; --update-avail; --divert"
        ),
    },
    "rpm": {
        "destructive": (
            "-e; --erase; -i*; -U*; -F*; --install; --upgrade; --freshen; --import; --eval; -E; --pipe; "
            "--define; -D; --nodeps; --force; --root; --rebuilddb; --initdb; --setperms; --setugids; "
            "--load; --predefine; --macros; --rcfile"
        ),
    },
    "systemctl": {
        "destructive/process": (
            "stop; restart; start; kill; reload*; isolate; poweroff; reboot; halt; suspend; hibernate; "
            "emergency; rescue; try-restart; condrestart; kexec; exit; hybrid-sleep; soft-reboot; "
            "switch-root; freeze; thaw; clean; reset-failed"
        ),
        "destructive/persist": (
            "enable; disable; mask; unmask; link; edit; daemon-reload; daemon-reexec; set-default; "
            "preset*; reenable; revert; set-environment; unset-environment; import-environment; "
            "add-wants; add-requires; set-property; bind; mount-image"
        ),
        "read/secret": "show-environment",
        "destructive/tool-exec": "-H; --host; -M; --machine",
    },
    "service": {
        "destructive/process": "stop; start; restart; reload; force-reload; condrestart; try-restart; */*",
    },
    "loginctl": {
        "destructive/process": (
            "terminate*; kill*; lock*; enable-linger; disable-linger; attach; activate; unlock*; flush*"
        ),
    },
    "journalctl": {
        "destructive": "--vacuum*; --rotate; --flush; --setup-keys; --sync; --relinquish-var",
        "destructive/tool-exec": "-D; --root; -M",
    },
    "ip": {
        "destructive/perm": (
            "add; del; delete; set; flush; change; replace; netns exec; netns; append; -b; -batch; "
            "-force; restore; save; exec"
        ),
    },
    "nmcli": {
        "destructive/perm": (
            "up; down; add; modify; delete; edit; connect; disconnect; on; off; radio; connection "
            "import; reload; load; monitor; hotspot; password; agent"
        ),
    },
    "ifconfig": {
        "destructive/perm": "* *",
    },
    "route": {
        "destructive/perm": "add; del; delete; flush; change",
    },
    "sysctl": {
        "destructive/perm": "-w; *=*; -p; --system; --load; --write; -f",
    },
    "timedatectl": {
        "destructive/perm": "set*",
    },
    "localectl": {
        "destructive/perm": "set*",
    },
    "hostname": {
        "destructive/perm": "*; -F; -b; --file; --boot",
    },
    "ufw": {
        "destructive/perm": "*",
    },
    "defaults": {
        "destructive/persist": "write; delete; import; rename",
    },
    "gsettings": {
        "destructive/persist": "set; reset*",
    },
    "dconf": {
        "destructive/persist": "write; reset; load; update",
    },
    "xattr": {
        "destructive/perm": "-w; -d; -c",
    },
    "gpg": {
        "destructive": "--delete*",
        "read/secret": "--export-secret*; -d; --decrypt; --export*; --list-secret*; -K; --decrypt-files",
        "destructive/tool-exec": (
            "--*-program; --exec-path; --edit-key; --import; --gen*; --send*; --keyserver*; --sign*; -s; "
            "-o; --output; --homedir; --options; --photo-viewer; --quick*; -e; -c; --encrypt"
        ),
    },
    "ssh-keygen": {
        "destructive": "*; -t; -f; -D; -R; -p; -y; -e; -i; -M; -s; -Y; -A; -l; -Q",
    },
    "ssh-copy-id": {
        "destructive/persist": "*",
    },
    "openssl": {
        "destructive/exfil": "s_client; s_server; s_time; ocsp; ts; cms; smime",
        "read/secret": "rsa; pkcs12; pkcs8; ec; pkey; genrsa; genpkey; genpkcs",
        "destructive/tool-exec": (
            "-engine; -provider*; engine; req -config; -config; ca; list -engines; req -engine; -out=/*; "
            "-rand; -writerand"
        ),
    },
    "supervisorctl": {
        "destructive/process": (
            "stop; restart; start; shutdown; remove; reload; update; signal; clear; reread; add"
        ),
    },
    "pm2": {
        "destructive/process": (
            "delete; kill; stop; restart; startup; start; save; install; reload; deploy; resurrect; "
            "flush; reset; unstartup; set"
        ),
    },
    "xdg-open": {
        "destructive/exfil": "*",
    },
    "open": {
        "destructive/exfil": "*",
    },
    "start": {
        "destructive/windows": "*",
    },
    "busctl": {
        "destructive/process": "call; set-property; emit",
    },
    "dbus-send": {
        "destructive/process": "*",
    },
    "gdbus": {
        "destructive/process": "call; emit",
    },
    "ansible": {
        "destructive/tool-exec": "-m; --module-name; -a; --args; -b; --become; all",
    },
    "ansible-playbook": {
        "destructive/data": "*",
    },
    "ansible-vault": {
        "read/secret": "decrypt; view; edit; rekey; encrypt*; create",
    },
    "ansible-console": {
        "destructive/shell": "*; -i",
    },
    "7z": {
        "destructive": "d; rn; -sdel",
        "destructive/outside": "-o/*; -o~*; -o..*; -spf*",
    },
    "unrar": {
        "destructive/outside": "x * /*; e * /*; x * ..*; e * ..*; x * ~*; -op/*",
    },
    "rar": {
        "destructive": "d; m; mf; -df; -dw; -dr",
        "destructive/outside": "x * /*; e * /*; x * ..*; e * ..*",
    },
    "cpio": {
        "destructive/outside": (
            "-i; -p; -D; --extract; --pass-through; --directory; -F; --file; --rsh-command"
        ),
    },
    "pax": {
        "destructive/outside": "-r; -s; -o",
    },
    "hdfs": {
        "destructive/data": "-rm*; -mv; -put; -copyFromLocal; -chmod; -chown; -expunge; -delete*; -format",
    },
    "tmutil": {
        "destructive": "delete*; disable; set*; remove*; restore; thin*",
    },
    "VBoxManage": {
        "destructive/data": (
            "unregistervm; controlvm; closemedium; modifyvm; guestcontrol; *delete*; natnetwork"
        ),
    },
    "vmrun": {
        "destructive/data": "delete*; stop; reset; suspend; run*; copy*; revert*",
    },
    "mongod": {
        "destructive/process": "--shutdown; --repair",
    },
    "apachectl": {
        "destructive/process": "stop; restart; start; graceful*; -k; -c; -C; -f",
    },
    "apache2ctl": {
        "destructive/process": "stop; restart; start; graceful*; -k; -c; -C; -f",
    },
    "forever": {
        "destructive/process": "stop*; restart*; start*; cleanlogs",
    },
    "softwareupdate": {
        "destructive/persist": "-i; --install; -d; --background; --reset-ignored; --ignore",
    },
    "airflow": {
        "destructive/data": (
            "delete; db reset; db clean; db downgrade; dags trigger; users; connections; clear"
        ),
    },
    "lpadmin": {
        "destructive/perm": "*; -p; -x; -d; -E",
    },
    "renice": {
        "destructive/process": "*; -n",
    },
    "nvram": {
        "destructive/device": "*=*; -d; -c",
    },
    "adb": {
        "destructive/tool-exec": (
            "shell; install; uninstall; push; pull; reboot; root; remount; sideload; backup; restore; "
            "forward; reverse; emu; tcpip; disable-verity"
        ),
    },
    "salt": {
        "destructive/tool-exec": "*",
    },
    "puppet": {
        "destructive/tool-exec": "*",
    },
    "knife": {
        "destructive/tool-exec": "*",
    },
}
