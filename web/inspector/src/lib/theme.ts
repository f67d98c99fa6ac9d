/** Light, dark, or what the system says. */

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const PLACE = "windlass.theme";

/** The theme that was chosen here last. */
export function readTheme(): Theme {
  const found = localStorage.getItem(PLACE);
  return THEMES.find((theme) => theme === found) ?? "system";
}

/** Shows a theme, and keeps it for next time. */
export function applyTheme(theme: Theme): void {
  const { classList } = document.documentElement;
  classList.toggle("dark", theme === "dark");
  classList.toggle("light", theme === "light");
  if (theme === "system") localStorage.removeItem(PLACE);
  else localStorage.setItem(PLACE, theme);
}
