package state

// A gatedDisk delays changes while slow is true, until gate is closed. Changes of a run of the
// server that has ended get lost.
type gatedDisk struct {
	disk
	life int
	slow bool
	gate chan struct{}
}

// A lifeOfDisk is the Records of one run of the server on the disk.
type lifeOfDisk struct {
	*gatedDisk
	life int
}

func (d *lifeOfDisk) Put(more []Record) error {
	return d.change(func() error { return d.disk.Put(more) })
}
func (d *lifeOfDisk) Remove(gone []Record) error {
	return d.change(func() error { return d.disk.Remove(gone) })
}

func (d *lifeOfDisk) change(f func() error) error {
	d.mu.Lock()
	gate, slow := d.gate, d.slow
	d.mu.Unlock()
	if slow {
		<-gate
	}
	d.mu.Lock()
	dead := d.gatedDisk.life != d.life
	d.mu.Unlock()
	if dead {
		return errDisk
	}
	return f()
}

func (d *gatedDisk) slowDown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.slow {
		d.slow, d.gate = true, make(chan struct{})
	}
}
