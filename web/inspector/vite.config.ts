import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const SERVER = "http://127.0.0.1:8700";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    outDir: "../../packages/server/src/windlass_server/inspector/dist",
    emptyOutDir: true,
    // Everything comes from the server's own files: nothing inside an address, which its policy would refuse.
    assetsInlineLimit: 0,
    // The polyfill would be needed by browsers that cannot run the rest either.
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // Zod is told to compile nothing before any schema is made: its setting is in the file that has Zod.
        codeSplitting: { groups: [{ name: "zod", test: /node_modules\/zod\/|src\/strict\.ts$/u }] },
      },
    },
    // `size.mjs` says how large all files together may be, and the first one alone.
    chunkSizeWarningLimit: 2_000,
  },
  server: { proxy: { "/v1": SERVER } },
});
