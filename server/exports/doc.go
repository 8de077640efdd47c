// Package exports opens the directories that a configuration exports, and keeps the set of
// exports that a server serves, over each change of it.
//
// An Opening follows the path to each directory, and refuses one that an export's clients could
// have put there. Filesystems are what is behind the exports: one file system for each directory,
// however many exports show it. A Set replaces its exports while calls run: the calls of an export
// that left end with it, and its file system is closed after the last of them. A Set also opens
// and closes what is mounted below exports with crossmnt. KeepApart refuses exports that would
// show the state directory, or each other's files.
//
// What an export lets its clients do is in ulb/nfs/export.
package exports
