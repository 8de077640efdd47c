// Package exports opens the directories that a configuration exports, and manages the exports that
// a server serves, also when they change.
//
// An Offer has the exports of the configuration. It opens the directory at each export's path, one by
// one, so that a directory that is missing or does not answer affects no other export. It refuses a
// directory that clients of another export could have put at this path, and an export that would open
// the files of another one to more clients. Filesystems has the open file systems: one for each
// directory, even if several exports show it. A Set has the present exports, and replaces them while
// calls run: a call that began with an old export completes with it, and the Set closes the old
// export's file system after the last such call. A Set also opens and closes the mounts below exports
// with crossmnt. KeepApart refuses, at a start, an export that would give clients access to the state
// directory, or to the files of an export with stricter options.
//
// Package ulb/nfs/export checks what clients may do in an export.
package exports
