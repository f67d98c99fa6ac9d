/** The style sheet for the classes that the built components name. */
export function styles(): Promise<string>;
