"""Clouds, clusters, databases with subcommands: what makes a call dangerous.

Literal data only.
The form of a rule is in `tables_families_dev.py`.
"""

CLOUD_FAMILIES = {
    "bq": {
        "destructive/data": "rm; load; cp; insert; mk; update; extract; truncate; undelete",
    },
    "docker": {
        "destructive/publish": (
            "push; image push; login; logout; manifest push; trust; buildx *--push*; build --push"
        ),
        "destructive/data": (
            "rm; rmi; prune; down -v; down --volumes; down; kill; stop; restart; pause; volume rm; "
            "network rm; image rm; container rm; swarm; service rm; stack rm; secret; config rm; node; "
            "system prune; system reset; machine rm; machine reset; machine stop; pod rm; pod kill; "
            "pod stop; compose rm; context; plugin; commit; import; load; update; rename; remove"
        ),
        "destructive/persist": (
            "--restart=always; --restart=unless-stopped; --restart=on-failure*; generate systemd"
        ),
        "destructive/priv": (
            "--privileged; --pid=host; --pid; --net=host; --network=host; --ipc=host; --userns=host; "
            "--cap-add; --security-opt; --device; --volumes-from; -H; --host; --mount; --cgroupns=host; "
            "--uts=host; unshare"
        ),
        "destructive/exfil": "cp; save; export; container cp",
    },
    "kubectl": {
        "destructive/data": (
            "delete; drain; cordon; taint; apply; replace; patch; scale; rollout restart; rollout undo; "
            "edit; set; create; run; expose; label --overwrite; annotate --overwrite; autoscale; "
            "certificate; auth reconcile; evict; adm; new-app; rsync; cp; debug; attach; port-forward; "
            "proxy; config set*; config use*; config delete*; config unset"
        ),
        "read/secret": ("get secret*; describe secret*; config view; get -A *secret*; create token; whoami"),
    },
    "helm": {
        "destructive/data": (
            "uninstall; delete; del; un; rollback; upgrade; install; push; repo remove; registry; plugin"
        ),
        "destructive/tool-exec": "--post-renderer",
    },
    "terraform": {
        "destructive/data": (
            "apply; destroy; import; taint; untaint; state rm; state mv; state push; force-unlock; "
            "workspace delete; workspace new; login; refresh; run-all; console"
        ),
        "read/secret": "output; state pull; state show; show",
    },
    "pulumi": {
        "destructive/data": ("up; update; destroy; cancel; import; refresh; stack rm; state; config; login"),
    },
    "aws": {
        "destructive/data": (
            "delete*; terminate*; rm; rb; mb; put*; create*; update*; modify*; stop*; reboot*; purge*; "
            "detach*; attach*; run*; start*; revoke*; authorize*; remove*; deregister*; disable*; "
            "enable*; reset*; cancel*; --delete; mv; set*; add*; restore*; release*; import*; invoke*; "
            "send*; publish*; execute*; batch*; deploy; copy*; associate*; disassociate*; replace*; "
            "register*; tag*; untag*; change*; upload*"
        ),
        "destructive/exfil": "cp; sync; s3 cp; s3 sync; presign",
        "read/secret": (
            "configure; sts get*token*; sts assume*; get-secret-value; get-parameter*; ecr get-login*; "
            "sso; iam *access-key*; get-session-token; get-password-data; secretsmanager; ssm; "
            "export-credentials"
        ),
    },
    "gcloud": {
        "destructive/data": (
            "delete; deploy; create; update; stop; reset; resize; remove*; add*; set*; undelete; "
            "disable; enable; ssh; scp; import; export; cp; rm; rsync; mv; failover; restart; detach*; "
            "attach*; restore; patch"
        ),
        "read/secret": "auth; access; secrets; print*token; credential*; config",
        "destructive/tool-exec": "help",
    },
    "az": {
        "destructive/data": (
            "delete; create; update; purge; stop; restart; start; remove; set; add; upload*; deploy*; "
            "deallocate; run*; copy; import; export; invoke*; rest; reset*; regenerate*; undeploy"
        ),
        "read/secret": (
            "account get-access-token; keyvault; list-keys; keys list; show-connection-string; login; "
            "credential*; secret; get-credentials"
        ),
    },
    "heroku": {
        "destructive/data": (
            "*:destroy; *:reset; apps:*; pg:*; config*; ps:*; run*; auth*; releases:*; maintenance*; "
            "pipelines:*; addons:*; domains:*; access:*; git:*; logs:*; keys:*"
        ),
    },
    "fly": {
        "destructive/data": (
            "destroy; deploy; secrets; scale; ssh; apps; machine*; volumes; postgres; auth; launch; "
            "console; proxy; sftp"
        ),
    },
    "netlify": {
        "destructive/publish": "deploy; sites:*; env:*; api; login",
    },
    "wrangler": {
        "destructive/publish": "deploy; publish; delete; secret*; kv*; r2*; d1*; login; rollback",
    },
    "firebase": {
        "destructive/publish": (
            "deploy; *:delete; *:set; login*; *:import; *:disable; firestore:*; database:*; hosting:*"
        ),
    },
    "serverless": {
        "destructive/data": "deploy; remove; invoke; rollback",
    },
    "cdk": {
        "destructive/data": "deploy; destroy; bootstrap; import",
    },
    "sam": {
        "destructive/data": "deploy; delete; sync",
    },
    "doctl": {
        "destructive/data": "delete; create; *destroy*; auth; rm; update; *-actions; apply*",
    },
    "eksctl": {
        "destructive/data": "delete; create; drain; upgrade; scale; apply",
    },
    "argocd": {
        "destructive/data": (
            "app delete; app sync; app create; app set; app rollback; login; cluster; proj; repo; account"
        ),
    },
    "flux": {
        "destructive/data": "delete; uninstall; suspend; bootstrap; create; reconcile; resume",
    },
    "istioctl": {
        "destructive/data": "install; uninstall; upgrade; x; experimental",
    },
    "minikube": {
        "destructive/data": "delete; stop; ssh; mount; cp; tunnel",
    },
    "kind": {
        "destructive/data": "delete; export; load",
    },
    "vagrant": {
        "destructive/data": (
            "destroy; halt; suspend; ssh; reload; provision; box remove; snapshot*; up; package; plugin"
        ),
    },
    "virsh": {
        "destructive/data": (
            "*destroy*; undefine; shutdown; reboot; *delete*; reset; define; create; start; attach*; "
            "detach*; *edit*; *import*; cd; qemu*"
        ),
    },
    "multipass": {
        "destructive/data": "delete; purge; stop; exec; shell; transfer; launch",
    },
    "lxc": {
        "destructive/data": (
            "delete; stop; exec; config; file; publish; image; init; launch; shell; restore; storage; "
            "network; profile"
        ),
    },
    "redis-cli": {
        "destructive/data": (
            "flushall; flushdb; del; unlink; config set; shutdown; eval; evalsha; script; debug; set; "
            "hset; slaveof; replicaof; module; save; bgsave; rename; migrate; restore; acl; expire; "
            "lpush; rpush; xadd; sadd; zadd; keys; *pop; *rem; swapdb; client kill; cluster; failover; "
            "function; monitor; config rewrite; hdel; *trim; persist; move; copy; incr*; decr*; append; "
            "getset; mset; setex; setnx; publish"
        ),
    },
    "rabbitmqctl": {
        "destructive/data": "*",
    },
    "kafka-topics": {
        "destructive/data": "--delete; --alter; --create",
    },
    "kafka-topics.sh": {
        "destructive/data": "--delete; --alter; --create",
    },
    "packer": {
        "destructive/data": "build",
    },
    "nomad": {
        "destructive/data": "job; stop; run; alloc; node; operator; system; acl; exec; var",
    },
    "consul": {
        "destructive/data": (
            "kv delete; kv put; leave; force-leave; exec; lock; watch; acl; services; snapshot; "
            "operator; agent"
        ),
    },
    "crane": {
        "destructive/publish": "push; delete; copy; tag; append; mutate; auth",
    },
    "skopeo": {
        "destructive/publish": "copy; delete; sync; login",
    },
    "oras": {
        "destructive/publish": "push; copy; login; tag; attach",
    },
    "cosign": {
        "destructive/publish": "sign*; attest*; generate*; clean; copy",
    },
    "supabase": {
        "destructive/data": (
            "db reset; db push; stop; link; secrets; functions deploy; functions delete; login; "
            "branches; projects"
        ),
    },
    "stripe": {
        "destructive/data": "*",
    },
    "twilio": {
        "destructive/data": "*",
    },
    "slack": {
        "destructive/publish": "*",
    },
}
