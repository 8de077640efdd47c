package billy

// WaitsForReads reports whether a change waits for reads of data, or runs.
func (f *FS) WaitsForReads() bool {
	if f.reading.TryRLock() {
		f.reading.RUnlock()
		return false
	}
	return true
}
