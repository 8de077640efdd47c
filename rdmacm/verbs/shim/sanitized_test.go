//go:build verbs && asan

package shim_test

// sanitized is true if the C code is compiled with AddressSanitizer, which replaces calloc itself.
const sanitized = true
