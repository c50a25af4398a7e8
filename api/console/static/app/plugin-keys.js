// @ts-check
// What the key of a plugin says: TYPE.FEATURE.AUTHOR. An author may have dots, a type and a feature do not.

/** @param {string} key */
export const featureOf = (key) => key.split(".")[1] ?? key;

/** @param {string} key */
export const typeOf = (key) => key.split(".")[0];
