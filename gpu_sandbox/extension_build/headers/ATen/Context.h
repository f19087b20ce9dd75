// Slim stand-in: every generated ATen/ops header includes ATen/Context.h and uses none of it.
// at::globalContext() and its kin are not here; code that wants them fails to compile, and is
// then built against the real headers (see extension_build/load_inline.py).
#pragma once
