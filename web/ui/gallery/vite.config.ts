import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vite";

/** Serves the gallery from the sources of the components: what is changed there is seen here at once. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [tailwindcss()],
  build: { emptyOutDir: true, reportCompressedSize: false, chunkSizeWarningLimit: 2_000 },
});
