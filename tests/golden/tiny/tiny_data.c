/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of tiny. The license covers the text around them; the numbers belong to the model.
 */
#include "tiny_data.h"

/* features.0: zero [1] for cortado_conv2d_s8__scalar */
const int8_t tiny__features_0_zero[1]
    __attribute__((aligned(4))) CORTADO_WEIGHTS = {
    -1
};

/* features.0: weights [4][3][3][1], packed with biases and factors for cortado_conv2d_s8__scalar */
const int8_t tiny__features_0_weights[96]
    __attribute__((aligned(4))) CORTADO_WEIGHTS = {
    -127,-76,-25,25,76,127,-85,-34,17,0,0,0,90,-64,-1,-1,
    -31,113,68,95,0,7,0,-128,73,127,-100,-45,9,64,118,-109,
    -54,0,0,0,-86,-41,-1,-1,60,-116,-21,88,0,7,0,-128,
    0,54,109,-118,-64,-9,45,100,-127,0,0,0,104,-14,-1,-1,
    60,-116,-21,88,0,7,0,-128,-68,-17,34,85,-127,-76,-25,25,
    76,0,0,0,73,12,0,0,-31,113,68,95,0,7,0,-128
};

/* features.2: zero [4] for cortado_depthwise_s8__scalar */
const int8_t tiny__features_2_zero[4]
    __attribute__((aligned(4))) CORTADO_WEIGHTS = {
    -128,-128,-128,-128
};

/* features.2: weights [2][2][4], packed with biases and factors for cortado_depthwise_s8__scalar */
const int8_t tiny__features_2_weights[64]
    __attribute__((aligned(4))) CORTADO_WEIGHTS = {
    0,-2,0,0,0,-2,0,0,0,-2,0,0,0,-2,0,0,
    127,127,127,127,127,127,127,127,127,127,127,127,127,127,127,127,
    97,41,-114,92,0,7,0,-128,97,41,-114,92,0,7,0,-128,
    97,41,-114,92,0,7,0,-128,97,41,-114,92,0,7,0,-128
};

/* classifier: weights [3][36], packed with biases and factors for cortado_linear_s8__scalar */
const int8_t tiny__classifier_weights[144]
    __attribute__((aligned(4))) CORTADO_WEIGHTS = {
    -127,68,0,-68,-76,119,51,-17,-25,-93,102,34,25,-42,-110,85,
    76,8,-59,-127,127,59,-8,-76,-85,110,42,-25,-34,-102,93,25,
    17,-51,-119,76,127,59,-8,-76,-85,110,42,-25,-34,-102,93,25,
    17,-51,-119,76,68,0,-68,127,119,51,-17,-85,-93,102,34,-34,
    -42,-110,85,17,8,-59,-127,68,119,51,-17,-85,-93,102,34,-34,
    -42,-110,85,17,8,-59,-127,68,59,-8,-76,119,110,42,-25,-93,
    -102,93,25,-42,-51,-119,76,8,0,-68,127,59,-108,-124,-3,-1,
    4,111,106,91,0,9,0,-128,89,-41,-2,-1,4,111,106,91,
    0,9,0,-128,30,-89,-1,-1,4,111,106,91,0,9,0,-128
};
