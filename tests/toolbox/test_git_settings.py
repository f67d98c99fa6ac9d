"""Every setting of git is reviewed: it runs no program and shows no file in a read that is graded safe."""

import re
import shutil
import subprocess
from fnmatch import fnmatchcase

import pytest
from tests.toolbox.test_git_reads import SETTINGS, SHOWN

from windlass.sandboxes.processes import OWN_VARIABLES
from windlass_harness.shell import programs

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

HARMLESS = """
advice.* attr.tree author.* blame.blankboundary blame.coloring blame.date blame.markignoredlines
blame.markunblamable* blame.showemail blame.showroot branch.*.deletemerged branch.*.description branch.*.merge
branch.*.mergeoptions branch.*.pushremote branch.*.rebase branch.*.remote branch.autosetupmerge
branch.autosetuprebase color.* column.* committer.* completion.commands
core.abbrev core.alternaterefsprefixes core.autocrlf core.bare core.bigfilethreshold
core.checkroundtripencoding core.checkstat core.commentchar core.commentstring core.commitgraph
core.compression core.configlocktimeout core.createobject core.deltabasecachelimit core.eol core.filemode
core.filesreflocktimeout core.fsmonitorhookversion core.fsync core.fsyncmethod core.fsyncobjectfiles
core.hidedotfiles core.ignorecase core.ignorestat core.lockfilepid core.logallrefupdates
core.loosecompression core.maxtreedepth core.multipackindex core.notesref core.packedgitlimit
core.packedgitwindowsize core.packedrefstimeout core.precomposeunicode core.prefersymlinkrefs
core.preloadindex core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion
core.restrictinheritedhandles core.safecrlf core.sharedrepository core.sparsecheckout
core.sparsecheckoutcone core.splitindex core.symlinks core.trustctime core.unsetenvvars core.untrackedcache
core.usereplacerefs core.warnambiguousrefs core.whitespace core.worktree
diff.*.binary diff.*.trustexitcode diff.*.wordregex diff.*.xfuncname diff.algorithm diff.autorefreshindex
diff.colormoved diff.colormovedws diff.context diff.dirstat diff.dstprefix diff.indentheuristic
diff.interhunkcontext diff.mnemonicprefix diff.noprefix diff.relative diff.renamelimit diff.renames
diff.srcprefix diff.statgraphwidth diff.statnamewidth diff.suppressblankempty diff.trustexitcode
diff.wordregex diff.wserrorhighlight
extensions.* feature.* fsmonitor.* gpg.format gpg.mintrustlevel gpg.ssh.allowedsignersfile
gpg.ssh.revocationfile grep.column grep.extendedregexp grep.fullname grep.linenumber grep.patterntype
grep.threads hasconfig:* hook.*.enabled hook.*.jobs hook.*.parallel hook.jobs i18n.* index.*
log.abbrevcommit log.date log.decorate log.excludedecoration log.follow log.graphcolors log.graphindent
log.initialdecorationset log.mailmap log.showroot notes.* reftable.* remote.*.fetch remote.*.url
remote.*.pushurl safe.directory sparse.* splitindex.* stash.index stash.showincludeuntracked
stash.showstat stash.usebuiltin status.aheadbehind status.branch status.comparebranches
status.displaycommentprefix status.relativepaths status.renamelimit status.renames status.short
status.showstash status.showuntrackedfiles submodule.*.active submodule.*.branch submodule.*.gitdir
submodule.*.url submodule.active submodule.propagatebranches tag.forcesignannotated tag.gpgsign trace2.*
url.* user.* versionsort.* worktree.*
""".split()
"""Settings that name no program, and no file that is shown. Work trees and references that lie elsewhere are
refused by `stray_place`. The targets of trace2 are read from the settings of user and system alone."""
ELSEWHERE = {
    "add": "add.* interactive.*",
    "am": "am.* mailinfo.*",
    "apply": "apply.*",
    "archive": "tar.* uploadarchive.*",
    "checkout": "checkout.*",
    "clean": "clean.*",
    "clone": "clone.* bundle.*",
    "commit": "commit.*",
    "commit-graph": "commitgraph.*",
    "cvsserver": "gitcvs.*",
    "daemon": "daemon.*",
    "difftool": "difftool.* diff.guitool",
    "fast-import": "fastimport.*",
    "fetch": "credential.* credentialcache.* credentialstore.* fetch.* http.* promisor.* protocol.* remotes.*"
    " remote.*.advertisedas remote.*.follow* remote.*.negotiation* remote.*.prox* remote.*.prune*"
    " remote.*.serveroption remote.*.skip* remote.*.tagopt remote.*.mirror sideband.* ssh.*"
    " submodule.*.fetch* submodule.alternate* submodule.fetchjobs transfer.*",
    "format-patch": "format.*",
    "fsck": "fsck.*",
    "gc": "gc.*",
    "gui": "gui.* guitool.*",
    "gitweb": "gitweb.*",
    "help": "help.* man.*",
    "imap-send": "imap.*",
    "init": "init.*",
    "instaweb": "instaweb.* web.* browser.*",
    "maintenance": "maintenance.*",
    "merge": "merge.*",
    "mergetool": "mergetool.*",
    "pack-objects": "pack.* bitmappseudomerge.*",
    "pull": "pull.*",
    "push": "push.* remote.*.push remote.pushdefault",
    "rebase": "rebase.* sequence.*",
    "receive-pack": "receive.*",
    "repack": "repack.*",
    "replay": "replay.*",
    "rerere": "rerere.*",
    "reset": "reset.*",
    "revert": "revert.*",
    "send-email": "sendemail.*",
    "show-branch": "showbranch.*",
    "interpret-trailers": "trailer.*",
    "upload-pack": "uploadpack.* uploadpackfilter.* lsrefs.*",
}
"""Settings of commands that are not in the language, and of no others."""
HINT = re.compile(
    "alias|askpass|attributes|blob|browser|clean|cmd|command|dir|driver|editor|exec|external|file|filter|helper"
    "|hook|include|mailmap|monitor|pack$|pager|path|process|program|proxy|script|smudge|ssh|storage|template"
    "|textconv|tool|tree$|tunnel|url|vcs|viewer"
)
"""Parts of the names of settings that may name a program or a file."""


def plain(key: str) -> str:
    """Return the name of a setting in small letters, with `*` for the part that a user chooses."""
    return re.sub(r"<[^>]*>", "*", key.strip().lower())


def planted() -> set[str]:
    """Return the settings that the tests of reads plant."""
    keys: set[str] = set()
    for text in (*SETTINGS.values(), *SHOWN.values()):
        section = ""
        for line in text.splitlines():
            match = re.fullmatch(r'(?:\[(\w+)( "[^"]*")?\])?\s*(\w+) = .*', line)
            assert match, line
            if match[1]:
                section = f"{match[1]}.*" if match[2] else match[1]
            keys.add(f"{section}.{match[3]}".lower())
    return keys


def is_reviewed(key: str) -> bool:
    overridden = {
        value.lower() for name, value in OWN_VARIABLES.items() if name.startswith("GIT_CONFIG_KEY_")
    }
    tried = {name.replace("alias.log", "alias.*").replace("pager.log", "pager.*") for name in planted()}
    elsewhere = " ".join(ELSEWHERE.values()).split()
    # A pattern has no special characters but its stars.
    return key in overridden or any(
        fnmatchcase(key, pattern)
        for pattern in (*tried, *HARMLESS, *elsewhere, "alias.*.command", "pretty.*")
    )


def test_every_setting_of_this_git_is_reviewed() -> None:
    text = subprocess.run(["git", "help", "--config"], check=True, capture_output=True, text=True).stdout
    keys = {plain(line) for line in text.splitlines() if re.match(r"[A-Za-z0-9-]+\.\S", line)}
    assert len(keys) > 500
    # A later git may have settings that this list does not: those that may name a program or a file count.
    new = sorted(key for key in keys if not is_reviewed(key) and HINT.search(key.partition(".")[2]))
    assert new == [], "override them in processes.py, plant them in test_git_reads.py, or list them here"


def test_settings_of_other_commands_are_those_of_commands_that_are_never_safe() -> None:
    safe = {name.partition(" ")[0] for name in programs.GIT}
    assert [command for command in ELSEWHERE if command in safe] == []


@pytest.mark.parametrize(
    "key",
    "core.newcommand diff.*.newprogram log.newfile blame.newpath status.newhook extra.tool".split(),
)
def test_a_setting_that_is_not_reviewed_is_told(key: str) -> None:
    assert not is_reviewed(key)
    assert HINT.search(key.partition(".")[2])
