/** Copy a value of a class with some of its fields changed. */
export function replace<T extends object>(value: T, changes: Partial<T>): T {
  const copy = Object.create(Object.getPrototypeOf(value) as object) as T;
  return Object.assign(copy, value, changes);
}
