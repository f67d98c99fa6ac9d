import "./lib/strict.js";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./app.css";
import { App } from "./app.js";
import { applyTheme, readTheme } from "./lib/theme.js";

applyTheme(readTheme());

const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
