/* SPDX-License-Identifier: Apache-2.0
 *
 * Every source of a bundle includes this one, the assembly files too: weights are packed as little-endian words.
 */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "this bundle is little-endian, its weights included; compile it without -mbig-endian"
#endif
