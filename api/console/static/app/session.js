// @ts-check
// Who has signed in, with what privileges.
import { signal } from "./lib.js";
import { ApiError, call, get, post, signedOut } from "./client.js";

/** @typedef {import("../../types/openapi").components["schemas"]["TokenSelf"]} Self */

/** Who has signed in; null before, undefined while that is being found out. @type {import("../vendor/signals.js").Signal<Self | null | undefined>} */
export const self = signal(undefined);

/** Find out who has signed in. Throws ApiError when the API does not say. */
export async function load() {
  // The cookie cannot be read here; the document says whether there was one.
  if (document.documentElement.dataset.signedIn === undefined) {
    self.value = null;
    return;
  }
  try {
    self.value = await get("/v1/whoami");
    signedOut.value = false;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    self.value = null;
  }
}

/** Throws ApiError, whose sentence says why not. @param {string} token a token or the admin's password */
export async function signIn(token) {
  self.value = await post("/v1/session", { token });
  signedOut.value = false;
}

export async function signOut() {
  await call("DELETE", "/v1/session");
  self.value = null;
}

/** @param {string} privilege such as "write_job" */
export const may = (privilege) => Boolean(self.value?.admin || self.value?.privileges.some((held) => held === privilege));
