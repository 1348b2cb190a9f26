/** What viem does not export, and says the types of elsewhere. */
declare module "*/viem/_esm/constants/contracts.js" {
  /** Creation code of Multicall3. */
  export const multicall3Bytecode: `0x${string}`;
}
