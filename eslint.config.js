import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

const ADDRESS = "The address is read by useSearch and written by to: see addresses.ts.";
const VAGUE = "/^(asked|found|given|kept|known|named|one|place|said|told|wanted|words)$/";
/** Local names that do not say what they hold. */
const VAGUE_NAMES = [
  `VariableDeclarator > Identifier.id[name=${VAGUE}]`,
  `:function > Identifier.params[name=${VAGUE}]`,
  `:matches(ObjectPattern > Property > Identifier.value, ArrayPattern > Identifier)[name=${VAGUE}]`,
].map((selector) => ({ selector, message: "Name the thing: what does it hold?" }));

export default tseslint.config(
  { ignores: ["**/dist/**", "**/node_modules/**", "web/*/src/generated/**", "**/*.mjs"] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: "web/tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    files: ["web/ui/**", "web/inspector/**"],
    plugins: { "react-hooks": reactHooks },
    rules: { "react-hooks/rules-of-hooks": "error", "react-hooks/exhaustive-deps": "error" },
  },
  {
    files: ["web/inspector/src/**", "web/ui/src/**"],
    rules: { "max-lines-per-function": ["error", { max: 80 }] },
  },
  {
    files: ["web/inspector/src/router.tsx"],
    rules: { "no-restricted-syntax": ["error", ...VAGUE_NAMES] },
  },
  {
    files: ["web/inspector/src/**"],
    ignores: ["web/inspector/src/router.tsx"],
    rules: {
      "no-restricted-globals": ["error", { name: "URLSearchParams", message: ADDRESS }],
      "no-restricted-syntax": [
        "error",
        ...VAGUE_NAMES,
        { selector: "MemberExpression[property.name=/^(searchParams|search)$/]", message: ADDRESS },
      ],
    },
  },
  {
    files: ["web/ui/src/**"],
    rules: {
      "no-restricted-syntax": [
        "error",
        ...VAGUE_NAMES,
        { selector: "JSXText[value=/\\p{L}/u]", message: "Texts come from labels: see labels.ts." },
        {
          selector: "JSXAttribute[name.name=/^(aria-label|title|placeholder|label)$/] > Literal",
          message: "Texts come from labels: see labels.ts.",
        },
      ],
    },
  },
);
