/** Every rule that belongs to one program, by the program's name. */
import type { Rule } from "./commands.js";
import { BUILTINS } from "./rules-builtin.js";
import { git } from "./rules-git.js";
import { NETWORK } from "./rules-net.js";
import { RUNNERS } from "./rules-run.js";
import { TOOLS } from "./rules-tools.js";

export const RULES: ReadonlyMap<string, Rule> = new Map([...RUNNERS, ...TOOLS, ...NETWORK, ...BUILTINS, ["git", git]]);
