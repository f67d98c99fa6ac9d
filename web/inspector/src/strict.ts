/** Imported before everything else: validators that are compiled would need `eval`, which the server's policy forbids. */
import { z } from "zod";

z.config({ jitless: true });
