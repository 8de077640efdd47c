// Package state keeps the state of NFSv4 clients: their identities, their leases, the files that
// they have open, the byte ranges that they have locked, and the part of it that survives a
// restart.
//
// Both minor versions share it. They differ in how a client introduces itself and how its
// requests are sequenced: packages nfs40 and nfs41 do that. This package decides which clients
// exist, and which opens and locks may exist side by side.
//
// One mutex guards every change. The code that holds it does no input or output, and does not
// wait. Outside this package it calls only functions that answer from memory: Identity.Follow,
// Companion.Active, Companion.Busy, vfs.OpenCounter.OpenFiles and vfs.Shared.Volume. These may
// take a mutex of their own, under which the Manager is never called. If a method has to close a
// file, write a record or call any other function, it returns that work, and the caller does it
// after it has released the mutex. The comments of these methods say so.
//
// Manager.Ask, in gate.go, decides about every access to a file.
package state
