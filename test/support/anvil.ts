/** The node of the tests: the one that `coinslot try` starts. */
export * from "../../src/trial/anvil.ts";
