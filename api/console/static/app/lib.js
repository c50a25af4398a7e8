// @ts-check
// What every module draws with. Nothing here takes HTML as a text: whatever is shown is a text node or an attribute.
import { Fragment, h, render } from "../vendor/preact.js";
import { useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";
import htm from "../vendor/htm.js";

/** Tagged template: html`<p class="note">${text}</p>`. */
export const html = htm.bind(h);

export {
  Fragment,
  batch,
  computed,
  effect,
  h,
  render,
  signal,
  useComputed,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useSignal,
  useSignalEffect,
  useState,
};
