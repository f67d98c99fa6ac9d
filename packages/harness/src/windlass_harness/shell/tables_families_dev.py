"""Development tools with subcommands: what makes a call of one dangerous.

Literal data only.
A rule is a list of words, and `;` divides rules: plain words must stand next to each other among the
operands, a word that begins with `-` must be among the options; `*` is anything.
"""

DEVELOPMENT_FAMILIES = {
    "git": {
        "destructive/publish": (
            "push; lfs push; annex drop; annex sync; send-email; send-pack; svn dcommit; p4 "
            "submit; imap-send; request-pull"
        ),
        "destructive/git": (
            "reset --hard; reset --merge; reset --keep; clean; branch -D; branch -d; branch --delete; "
            "branch -M; branch -f; branch --force; branch -C; checkout -f; checkout --force; checkout .; "
            "checkout * .; checkout --; checkout * --; checkout -B; checkout -p; checkout --ours; "
            "checkout --theirs; "
            "checkout-index; restore; switch -f; switch --force; switch --discard-changes; switch -C; "
            "stash drop; stash clear; reflog expire; reflog delete; gc --prune*; gc --aggressive; prune; "
            "prune-packed; filter-branch; filter-repo; update-ref; tag -d; tag --delete; tag -f; tag "
            "--force; worktree remove; worktree prune; remote remove; remote rm; remote set-url; remote "
            "prune; remote add; rm; notes remove; notes prune; replace; read-tree; submodule deinit; "
            "repack -a*d*; repack -d; commit-tree; symbolic-ref * *; symbolic-ref -d; fetch --prune*; "
            "pull --force; pull --rebase --force; lfs prune; fetch -p; rerere clear; sparse-checkout; "
            "update-index; rebase --root; bundle unbundle; fast-import; config --unset*; fetch --force; "
            "fetch -f; merge-index; merge-file; pack-refs --prune; mv -f; mv --force; branch -m; branch "
            "--move; stash branch"
        ),
        "destructive/git-exec": (
            "--ext-diff; --textconv; submodule foreach; submodule add; bisect run; rebase -x; rebase "
            "--exec; rebase -i; rebase --interactive; difftool; mergetool; clone --template; init "
            "--template; clone --upload-pack; clone -u; clone -c; clone --config; fetch --upload-pack; "
            "pull --upload-pack; --upload-pack; --receive-pack; --exec; --open-files-in-pager; grep -O; "
            "daemon; instaweb; http-backend; upload-pack; receive-pack; upload-archive; shell; "
            "remote-ext; remote-fd; hook; cvsserver; gui; citool; maintenance start; maintenance "
            "register; apply --unsafe-paths; am --exec; lfs install; archive --exec; archive --remote; "
            "archive -o; archive --output; p4; svn; help; format-patch -o /*; format-patch "
            "--output-directory; worktree add /*; worktree add ..*; init /*; clone * /*; clone * ~*; "
            "clone * ..*; bundle create /*"
        ),
        "read/secret": "credential; credential-*; var -l",
    },
    "npm": {
        "destructive/publish": (
            "publish; unpublish; deprecate; dist-tag; access; owner; token; adduser; login; logout; "
            "profile; team; org; star; hook; stars; npm publish; npm tag"
        ),
        "destructive/remote-code": (
            "dlx; create; init *; exec --yes; exec -y; exec --package; x -y; --registry; install *://*; "
            "i *://*; add *://*; ci *://*; install git@*; i git@*; add git@*; install git*:*; i git*:*; "
            "add git*:*; install bitbucket:*; install gist:*; add gist:*"
        ),
        "destructive/tool-exec": (
            "--script-shell; --shell; config set; set; config edit; edit; explore; --node-options; "
            "--prefix=/*; --globalconfig; --userconfig; config --global; link; exec; config delete; "
            "plugin; set-script; pkg set"
        ),
        "destructive": "cache clean --force; cache clear --force; store prune; cache clean --all",
        "read/secret": "config get *auth*; config get *token*; config list; config ls; config get",
    },
    "npx": {
        "destructive/remote-code": (
            "-y; --yes; -p; --package; *@*; http*:*; github:*; git+*; -c; --call; */*#*"
        ),
    },
    "bunx": {
        "destructive/remote-code": "*",
    },
    "pip": {
        "destructive/remote-code": (
            "-i; --index-url; --extra-index-url; --trusted-host; -f; --find-links; --proxy; install "
            "*://*; download *://*; wheel *://*; install *+*; install */*@*; run; inject; --pip-args; "
            "install /*; install ~*; install ..*; --spec; --config-settings; --global-option; "
            "--install-option; --build-option; install * @ *; -r=*://*"
        ),
        "destructive/tool-exec": (
            "config set; config edit; config unset; --target=/*; --prefix; --root; -t; --target; "
            "--python; --editor"
        ),
        "read/secret": "config list; config get; config debug",
        "destructive": "cache purge; cache remove; uninstall*; reinstall-all",
    },
    "pipenv": {
        "destructive": "--rm; uninstall; clean; --clear",
    },
    "virtualenv": {
        "destructive": "--clear",
    },
    "jj": {
        "destructive/git": (
            "abandon; restore; op undo; op restore; op abandon; undo; workspace forget; squash"
        ),
        "destructive/publish": "git push",
        "destructive/git-exec": "--config*; fix; run; config set; config edit",
    },
    "cvs": {
        "destructive/publish": "commit; ci; remove; rm; import; admin",
        "destructive/git-exec": "-e; -d",
    },
    "uv": {
        "destructive/publish": "publish",
        "destructive/remote-code": (
            "tool run; --index-url; --default-index; --index; --extra-index-url; -i; --find-links; -f; "
            "pip install *://*; --with; --from; add *://*; tool install *://*; run *://*; "
            "--trusted-host; --allow-insecure-host"
        ),
        "destructive": "cache clean; cache prune; self; python uninstall; tool uninstall; auth",
    },
    "poetry": {
        "destructive/publish": "publish",
        "destructive/tool-exec": "config; self; cache clear; env remove; source add; remove",
    },
    "hatch": {
        "destructive/publish": "publish",
        "destructive/tool-exec": "config set; env prune; env remove",
    },
    "flit": {
        "destructive/publish": "publish",
    },
    "pdm": {
        "destructive/publish": "publish",
        "destructive/tool-exec": "config; self; plugin",
    },
    "twine": {
        "destructive/publish": "upload; register",
    },
    "gem": {
        "destructive/publish": "push; yank; owner; signin; signout",
        "destructive": "uninstall; cleanup",
        "destructive/remote-code": "--source; -s; sources; exec",
        "destructive/tool-exec": "open; -e; --editor",
    },
    "bundle": {
        "destructive/tool-exec": "config; open; clean; console; plugin; exec irb; exec ruby; help",
    },
    "cargo": {
        "destructive/publish": "publish; yank; owner; login; logout",
        "destructive/tool-exec": "--config; -Z; uninstall; -C",
        "destructive/remote-code": "--git; install --git; --registry; --index; script",
    },
    "rustup": {
        "destructive": "self uninstall; toolchain uninstall; override; default; self update",
    },
    "go": {
        "destructive/tool-exec": (
            "-exec; -toolexec; -overlay; env -w; env -u; clean; -modfile; -ldflags=*-extld*; tool; "
            "telemetry; -C; -vettool; bug"
        ),
        "destructive/remote-code": "run *@*; run *.*/*",
    },
    "composer": {
        "destructive/remote-code": "global; create-project",
        "destructive/tool-exec": "config; self-update; run-script; exec; --working-dir; -d",
    },
    "mvn": {
        "destructive/publish": "deploy; *:deploy*; release:*; site-deploy",
        "destructive/tool-exec": "exec:*; -s; --settings; *:exec*; -f",
    },
    "gradle": {
        "destructive/publish": "publish*; upload*; release*",
        "destructive/tool-exec": "-I; --init-script; -b; --include-build; -g",
    },
    "dotnet": {
        "destructive/publish": "nuget push; nuget delete; nuget add",
        "destructive/tool-exec": "tool install; new install; exec; fsi; script",
    },
    "nuget": {
        "destructive/publish": "push; delete; setapikey",
    },
    "conda": {
        "destructive": "remove; uninstall; clean; env remove",
        "destructive/tool-exec": "config; run",
    },
    "hg": {
        "destructive/git": (
            "push; strip; update -C; update --clean; revert; purge; rollback; histedit; forget; remove"
        ),
        "destructive/git-exec": "--config; --debugger; -R; serve; --repository; debug*; extdiff",
    },
    "svn": {
        "destructive/publish": "commit; ci; delete; import; copy; move; lock; unlock; propset --revprop",
        "destructive/git": "revert; cleanup --remove*; switch",
        "destructive/git-exec": (
            "--diff-cmd; --diff3-cmd; --editor-cmd; --config-option; --config-dir; --merge*"
        ),
    },
    "bzr": {
        "destructive/publish": "push; commit",
        "destructive/git-exec": "--using; help",
    },
    "windlass": {
        "destructive/policy": (
            "approve*; approval*; policy*; deny*; grant*; run; serve; worker; sidecar; init; *delete*; "
            "*reset*; *import*; *fork*; *replay*; dev; *purge*; *--yes*; config*; answer*; cancel*; "
            "steer*"
        ),
    },
    "gh": {
        "destructive/publish": (
            "release; pr create; pr merge; pr close; pr comment; pr edit; pr review; pr ready; pr "
            "reopen; issue create; issue close; issue comment; issue delete; issue edit; issue transfer; "
            "issue reopen; repo create; repo delete; repo edit; repo archive; repo rename; repo sync; "
            "repo fork; gist; workflow run; workflow disable; workflow enable; run cancel; run rerun; "
            "run delete; secret; variable set; variable delete; ssh-key; gpg-key; cache delete; api; "
            "label; ruleset; project; codespace; deploy-key; repo deploy-key"
        ),
        "read/secret": "auth",
        "destructive/persist": "extension; alias; config set; attestation",
    },
    "glab": {
        "destructive/publish": "mr create; mr merge; release; repo delete; api; variable; ci run; auth",
    },
    "pre-commit": {
        "destructive/persist": (
            "install; try-repo; clean; gc; uninstall; init-templatedir; autoupdate; hook-impl"
        ),
    },
    "husky": {
        "destructive/persist": "*",
    },
    "lefthook": {
        "destructive/persist": "install; add; run; uninstall",
    },
    "lerna": {
        "destructive/publish": "publish; version",
        "destructive/tool-exec": "exec; clean",
    },
    "changeset": {
        "destructive/publish": "publish",
    },
    "vsce": {
        "destructive/publish": "publish; unpublish; login; delete*",
    },
    "goreleaser": {
        "destructive/publish": "release; publish; announce",
    },
    "mkdocs": {
        "destructive/publish": "gh-deploy",
    },
    "eas": {
        "destructive/publish": "submit; update; build; secret*; credentials",
    },
    "mix": {
        "destructive/publish": "hex.publish; hex.*",
        "destructive/data": "ecto.drop; ecto.reset; ecto.rollback",
        "destructive/tool-exec": "run -e; -e; --eval; eval; archive.install; escript.install",
    },
    "cabal": {
        "destructive/publish": "upload",
        "destructive/tool-exec": "exec; v2-exec; repl; --with-*",
    },
    "stack": {
        "destructive/publish": "upload",
        "destructive/tool-exec": "exec; eval; ghci; repl; runghc",
    },
    "opam": {
        "destructive": "remove; switch remove; pin",
        "destructive/tool-exec": "exec; init; repository; env",
    },
    "nix": {
        "destructive/tool-exec": (
            "run; shell; develop; store delete; store gc; profile; copy; eval; repl; upgrade-nix; "
            "--option; registry"
        ),
        "destructive": "-d",
    },
    "nix-collect-garbage": {
        "destructive": "*; -d",
    },
    "nix-shell": {
        "destructive/tool-exec": "--run; --command; -p; -i",
    },
    "nix-env": {
        "destructive": "-e; --uninstall; --delete-generations; -i; -iA; --rollback",
    },
    "bazel": {
        "destructive": "clean --expunge",
        "destructive/tool-exec": (
            "--run_under*; --bazelrc*; --override_repository*; --spawn_strategy*; --workspace_status_command*"
        ),
    },
    "cmake": {
        "destructive/tool-exec": "-E; -P; --install; -DCMAKE_*_LAUNCHER*; --open; -DCMAKE_*_COMPILER*",
    },
    "xcrun": {
        "destructive/tool-exec": "altool; simctl delete; simctl erase; notarytool; simctl spawn",
    },
    "xcodebuild": {
        "destructive": "clean",
    },
    "code": {
        "destructive/tool-exec": (
            "--install-extension; --uninstall-extension; tunnel; --user-data-dir; --extensions-dir; serve-web"
        ),
    },
    "dvc": {
        "destructive/publish": "push; remove; gc; destroy; remote",
    },
    "huggingface-cli": {
        "destructive/publish": "upload; login; repo; delete-cache; lfs*; env; whoami",
    },
    "wandb": {
        "destructive/publish": "sync; login; artifact; launch; agent; sweep",
    },
    "kaggle": {
        "destructive/publish": "*create*; *push*; *submit*; *version*",
    },
    "ollama": {
        "destructive": "rm; push; create; cp; stop",
    },
    "django-admin": {
        "destructive/data": (
            "flush; migrate; dbshell; shell; sqlflush; loaddata; reset_db; changepassword; createsuperuser"
        ),
    },
    "rails": {
        "destructive/data": (
            "db:drop*; db:reset*; db:purge*; db:setup*; db:rollback; db:schema:load; runner; r; console; "
            "c; dbconsole; destroy; credentials:*; db; secrets:*; db:truncate*; db:seed:replant; "
            "db:structure:load"
        ),
    },
    "rake": {
        "destructive/data": (
            "db:drop*; db:reset*; db:purge*; db:rollback; release; db:schema:load; db:truncate*; publish"
        ),
        "destructive/tool-exec": "-e; -E; -p; --execute*; -r; --require",
    },
    "artisan": {
        "destructive/data": (
            "migrate:fresh; migrate:reset; migrate:refresh; db:wipe; tinker; migrate:rollback; "
            "key:generate; down"
        ),
    },
    "prisma": {
        "destructive/data": (
            "migrate reset; db push; migrate deploy; db execute; migrate resolve; studio; db seed"
        ),
    },
    "sequelize": {
        "destructive/data": "db:drop; db:migrate:undo*",
    },
    "knex": {
        "destructive/data": "migrate:rollback; migrate:down",
    },
    "alembic": {
        "destructive/data": "downgrade",
    },
    "flask": {
        "destructive/data": "db downgrade; shell; db drop",
    },
    "jira": {
        "destructive/publish": (
            "issue create; issue delete; issue move; issue edit; issue assign; issue comment"
        ),
    },
}
