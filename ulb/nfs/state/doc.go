// Package state keeps the state of NFSv4 clients: their identities, their leases, the files that
// they have open, the byte ranges that they have locked, and the part of it that survives a
// restart.
//
// Both minor versions share it. They differ in how a client introduces itself and how its
// requests are sequenced: packages nfs40 and nfs41 do that. This package decides which clients
// exist, and which opens and locks may exist side by side.
//
// One mutex guards every change. The code that holds it does no input or output, does not wait,
// and calls back only Identity.Follow, Companion.Active and Companion.Busy, which must not block
// either. If a method has to close a file, write a record or call a function, it returns that
// work, and the caller does it after it has released the mutex. The comments of these methods say
// so.
package state
