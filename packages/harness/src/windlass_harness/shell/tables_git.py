"""git: which subcommands read, with which options; which write or ask others.

Literal data only.
The form of a description is in `options.py`.
"""

_DIFF = (
    "stat? shortstat numstat dirstat? summary name-only name-status raw patch no-patch color? no-color "
    "color-words? word-diff? word-diff-regex= unified= ignore-all-space ignore-space-change "
    "ignore-blank-lines ignore-space-at-eol ignore-cr-at-eol minimal patience histogram diff-algorithm= "
    "find-renames? find-copies? no-renames diff-filter= exit-code quiet cached staged merge-base "
    "full-index binary abbrev? relative? text no-ext-diff no-textconv src-prefix= dst-prefix= no-prefix "
    "default-prefix compact-summary function-context inter-hunk-context= check submodule? "
    "ignore-submodules? color-moved? no-index ws-error-highlight= pickaxe-all pickaxe-regex "
    "find-copies-harder irreversible-delete ita-invisible-in-index skip-to= rotate-to= patch-with-stat "
    "patch-with-raw no-color-moved indent-heuristic no-indent-heuristic ext-diff! textconv! output> "
    "open-files-in-pager! exec! upload-pack!"
)
_LOG = _DIFF + (
    " oneline graph all branches? tags? remotes? decorate? no-decorate decorate-refs= pretty? format= "
    "max-count= skip= since= after= until= before= author= committer= grep= all-match invert-grep "
    "regexp-ignore-case extended-regexp fixed-strings perl-regexp merges no-merges first-parent reverse "
    "date= follow abbrev-commit no-abbrev-commit date-order topo-order author-date-order cherry-pick "
    "left-right cherry-mark left-only right-only simplify-by-decoration full-history "
    "no-patch source walk-reflogs no-notes notes? relative-date parents children boundary dense sparse "
    "simplify-merges ancestry-path? use-mailmap mailmap no-mailmap cc remove-empty full-diff log-size "
    "glob= exclude= min-parents= max-parents= no-walk? do-walk clear-decorations combined-all-paths "
    "diff-merges= not objects show-linear-break? no-expand-tabs expand-tabs? encoding= count"
)
_DIFF_SHORT = "prsuwbabBRtDz0123456789 U= M? C? S= G= O@ X? W l="
_LOG_SHORT = "prsuwbabBRtDzgiEFPcm0123456789 U= M? C? S= G= O@ X? W n= L@ l="

GIT_READERS = {
    "log": f"{_LOG_SHORT} | {_LOG} | path",
    "show": f"{_LOG_SHORT} | {_LOG} | path",
    "diff": f"{_DIFF_SHORT} | {_DIFF} base ours theirs | path",
    "diff-tree": f"{_DIFF_SHORT} mv | {_DIFF} root stdin always cc no-commit-id pretty? format= | path",
    "diff-index": f"{_DIFF_SHORT} m | {_DIFF} | path",
    "diff-files": f"{_DIFF_SHORT} q | {_DIFF} | path",
    "range-diff": f"{_DIFF_SHORT} | {_DIFF} creation-factor= no-dual-color left-only right-only | path",
    "whatchanged": f"{_LOG_SHORT} | {_LOG} | path",
    "reflog": f"{_LOG_SHORT} | {_LOG} | path",
    "shortlog": (
        "nsecw? | numbered summary email committer group= since= until= after= before= no-merges all "
        "format= | path"
    ),
    "status": (
        "sbvz u? | short branch show-stash porcelain? long verbose untracked-files? ignored? column? "
        "no-column ahead-behind no-ahead-behind renames no-renames find-renames? ignore-submodules? | "
        "path"
    ),
    "branch": (
        "arvqi l~ | all remotes verbose list show-current contains? no-contains? merged? no-merged? "
        "points-at= format= sort= color? no-color column? no-column abbrev? no-abbrev ignore-case | "
        "branch"
    ),
    "tag": (
        "li n? | list sort= contains? no-contains? merged? no-merged? points-at= format= column? color? "
        "ignore-case | tag"
    ),
    "stash list": f"{_LOG_SHORT} | {_LOG} | path",
    "stash show": f"{_DIFF_SHORT} | {_DIFF} include-untracked only-untracked | path",
    "remote": "v | verbose | none",
    "remote get-url": "| push all | text",
    "rev-parse": (
        "q | abbrev-ref? short? verify quiet show-toplevel show-prefix show-cdup git-dir "
        "absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository "
        "is-shallow-repository symbolic symbolic-full-name all branches? tags? remotes? revs-only "
        "no-revs flags no-flags show-superproject-working-tree path-format= show-object-format? since= "
        "until= default= prefix= disambiguate= sq not git-path= | path"
    ),
    "rev-list": (
        f"{_LOG_SHORT} | {_LOG} count objects max-age= min-age= use-bitmap-index quiet header timestamp "
        "bisect | path"
    ),
    "describe": (
        "| tags all long abbrev= dirty? broken? always match= exclude= contains exact-match candidates= "
        "first-parent debug | text"
    ),
    "ls-files": (
        "cdmosktvzuf X@ x= | cached deleted modified others stage unmerged killed directory "
        "no-empty-directory eol exclude-standard exclude= exclude-from@ exclude-per-directory= "
        "error-unmatch full-name recurse-submodules abbrev? deduplicate format= resolve-undo sparse | "
        "path"
    ),
    "ls-tree": ("drtlz | long name-only name-status object-only full-name full-tree abbrev? format= | path"),
    "blame": (
        "bfnslewtpcM? C? L= S@ | root incremental porcelain line-porcelain date= show-name show-number "
        "show-email show-stats ignore-rev= ignore-revs-file@ color-lines color-by-age abbrev= reverse "
        "first-parent progress no-progress encoding= contents@ | path"
    ),
    "annotate": "bfnslewtpc L= | | path",
    "cat-file": (
        "tspe | batch-check? batch-all-objects unordered buffer allow-unknown-type follow-symlinks path= "
        "| path"
    ),
    "grep": (
        "aIiwvEGFPnlLcqhHozpWr0123456789 e= f@ A= B= C= m= O! | text ignore-case word-regexp "
        "invert-match full-name extended-regexp basic-regexp fixed-strings perl-regexp line-number "
        "column files-with-matches name-only files-without-match only-matching count color? no-color "
        "break heading show-function function-context context= after-context= before-context= max-count= "
        "max-depth= threads= and or not all-match quiet cached untracked no-index no-exclude-standard "
        "exclude-standard recurse-submodules recursive no-recursive null textconv! open-files-in-pager! "
        "| text path"
    ),
    "for-each-ref": (
        "p s | count= sort= format= color? points-at= merged? no-merged? contains? no-contains? "
        "ignore-case exclude= shell perl python tcl | text"
    ),
    "show-ref": "dsq | head heads branches tags dereference hash? verify abbrev? quiet exists | text",
    "merge-base": "a | all octopus is-ancestor independent fork-point | text",
    "name-rev": "| tags all name-only always refs= exclude= | text",
    "cherry": "v | abbrev? | text",
    "count-objects": "vH | verbose human-readable | none",
    "check-ignore": "vqzn | verbose quiet stdin non-matching no-index | path",
    "check-attr": "az | all stdin cached | text",
    "check-ref-format": "| branch normalize allow-onelevel | text",
    "var": "| | text",
    "version": "| build-options | none",
    "symbolic-ref": "q | short quiet | single",
    "worktree list": "vz | porcelain verbose | none",
    "submodule status": "q | cached recursive quiet | path",
    "notes list": "| | text",
    "notes show": "| | text",
    "bisect log": "| | none",
    "config": (
        "lz | get list name-only show-origin show-scope get-all local null includes no-includes type= "
        "bool int path default= | config"
    ),
    "patch-id": "| stable unstable verbatim | none",
    "stripspace": "sc | strip-comments comment-lines | none",
    "get-tar-commit-id": "| | none",
    "column": "| mode= width= indent= nl= padding= | none",
}
"""Subcommands of git that read the repository, with the options that keep them reading."""

GIT_LOCAL = frozenset(
    """
    add commit stash tag branch checkout switch merge rebase cherry-pick revert reset mv init am
    apply notes worktree bisect rerere format-patch archive bundle gc repack pack-refs config cherry
    submodule restore clean rm fsck commit-graph multi-pack-index write-tree mktree hash-object
    update-server-info maintenance blame-ignore subtree
    """.split()
)
GIT_NETWORK = frozenset("fetch pull clone ls-remote push submodule remote lfs fetch-pack archimport".split())
GIT_CONFIG_HARMLESS = tuple(
    """
    color.* core.quotepath=* core.abbrev=* advice.* column.* log.date=* core.pager=cat core.pager=
    user.name=* user.email=* diff.renames=* core.fsmonitor=false core.hookspath=/dev/null
    log.showsignature=false status.* pager.*=false pager.*=cat commit.gpgsign=false core.autocrlf=*
    init.defaultbranch=*
    """.split()
)
"""Settings that `-c` may carry without changing what runs."""
