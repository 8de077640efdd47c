//go:build verbs && !asan

package shim_test

// sanitized is false: the C code is compiled without AddressSanitizer.
const sanitized = false
