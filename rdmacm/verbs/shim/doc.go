// Package shim implements rdmacm/verbs/device with librdmacm and libibverbs. It needs cgo
// and the build tag verbs. The libraries are opened when they are needed, so that one
// program runs on machines with and without them.
package shim
