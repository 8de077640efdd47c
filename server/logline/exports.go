package logline

// Lines about exports, their directories and the configuration.
var (
	DiskFailed = fault("the disk did not store what was written",
		"follow `remedy`. `directory`, `file_system` and `mounted_on` name the file system, `error` the reason. The daemon answered the affected calls with an error, and clients send uncommitted data again. There is one line a minute for each file system: `others_before` counts the syncs that failed since the line before, and the metric `nfsrdmad_failed_syncs_total` counts all failed syncs")
	WaitsForDirectory = warn("the start waits for the directory of an export",
		"see whether the disk or the file server of the directory that `error` names works. The daemon waits because it can serve no other export, or because `strict` is set. It goes on as soon as the directory answers")
	LeftOut = fault("an export is left out; the daemon tries again every minute",
		"correct what `error` says: the directory is missing, its file system does not answer, or the export would open another one to its clients. All other exports are served. SIGHUP tries again at once")
	DirectoryUnopened = fault("an export's directory cannot be opened at its path: the one before is still served",
		"correct what `error` says, and send SIGHUP; or remove the export from the configuration to end access to the directory")
	DirectoryExchanged = fault("an export's directory is not the one that it was: the one before is still served",
		"check the directory at the export's path. At a reload, the path led to another directory than before, and this export lies in the directory of another export (the outer export). Clients of the outer export may have put the new directory there, so the daemon still serves the old one. `error` says how to accept the new directory: see [security.md](security.md#handles)")
	DirectoryBack = info("the directory of an export can be opened again, and is served",
		"nothing")
	DirectoriesOpened = info("directories of exports have been opened",
		"nothing")
	DirectoriesUnserved = fault("cannot serve exports whose directories were opened",
		"correct what `error` says, and send SIGHUP")
	DirectoriesUnrecorded = fault("cannot record which directories exports have",
		"see that the state directory can be written and has room")
	OtherDirectory = warn("the path of an export leads to another directory than before, which is served now",
		"nothing, if you have put another directory or file system there on purpose; else mount the right file system there, and send SIGHUP. The export lies in no other export, so no client can have put the directory there. Handles that clients have of files in the former directory are stale")
	OtherFileSystem = warn("another file system than before is mounted at the path of an export, and is served now",
		"nothing, if it is the right one. Handles that clients have of files in the former one are stale: programs see \"Stale file handle\" and open their files again. If the mount point itself is stale on a client, unmount it there and mount again. On which kinds of file systems handles outlast a mount: [filesystems.md](filesystems.md)")
	MountedAnew = warn("the file system at the path of an export was mounted anew, and is served now",
		"as in the row above")
	OldHandles = warn("this version of nfsrdmad does not accept the file handles that an earlier version gave to clients",
		"see [below](#upgrading-and-restarting). The line comes once for each export")
	FileSystemLacks = warn("the file system of an export lacks what clients expect of NFS",
		"`lacks` says what clients do not get on this `kind` of file system, and the remedy")
	MountUnserved = warn("a mount below an export is not served",
		"`reason` says why, and [configuration.md](configuration.md#mounts-below-an-export) which mounts are served")
	MoreMountsUnserved = warn("more mounts below exports are not served, and have no lines",
		"see the lines before; there are very many such mounts")
	MountsUnwatched = fault("cannot watch the mounts of the machine: a new mount below an export is found when a client enters it",
		"report `error`, if this machine has room for another open file")
	MountsUnread = fault("cannot read which file systems are mounted below exports",
		"see whether `/proc` is mounted, and whether the limit of open files is reached")
	MountUnclosed = fault("cannot close a mount below an export",
		"see whether its disk works")
	Reloaded = info("configuration read again",
		"nothing: the line lists the exports that were `added`, `replaced` and `removed`, and in `keys` the keys whose new values hold now. When no call uses a replaced or removed export any more, the daemon logs `closed an export that was replaced or removed`")
	ReloadFollows = info("a reload is still running: the configuration will be read once more after it",
		"nothing")
	ReloadFailed = fault("reload failed: the old configuration stays in force",
		"correct the error that the line names, and send SIGHUP again")
	ValueKept = warn("cannot listen at the new address of a key: the former one stays in force",
		"choose another address for the `key` that the line names, and reload; the next reload tries again in any case. The daemon listens at the new address before it leaves the former one. If the two overlap, such as `127.0.0.1:9427` and `:9427`, restart the daemon, or reload without the key, and then with it")
	RestartNeeded = warn("some changes of the configuration take effect at the next start only",
		"restart the daemon if the new values are to take effect; `keys` names the keys that have changed")
	ExportClosed = info("closed an export that was replaced or removed",
		"nothing")
)
