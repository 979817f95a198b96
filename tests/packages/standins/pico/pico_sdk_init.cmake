# What a program sees of the Pico SDK, after "Raspberry Pi Pico-series C/C++ SDK": the toolchain's flags before project(),
# pico_stdlib, and functions that say where stdio goes.
set(CMAKE_C_FLAGS_INIT "${STANDIN_CORE_FLAGS}")
set(CMAKE_CXX_FLAGS_INIT "${STANDIN_CORE_FLAGS}")
set(CMAKE_ASM_FLAGS_INIT "${STANDIN_CORE_FLAGS}")
set(STANDIN_SDK ${CMAKE_CURRENT_LIST_DIR})

macro(pico_sdk_init)
  add_library(pico_stdlib INTERFACE)
  target_include_directories(pico_stdlib INTERFACE ${STANDIN_SDK}/include)
  target_sources(pico_stdlib INTERFACE ${STANDIN_BOARD}/start.c)
  target_link_options(pico_stdlib INTERFACE --specs=rdimon.specs -T ${STANDIN_BOARD}/board.ld)
endmacro()

function(pico_enable_stdio_usb target enabled)
endfunction()

function(pico_enable_stdio_uart target enabled)
endfunction()

function(pico_add_extra_outputs target)
endfunction()
