package rdmacm

// Stats are the counters of a provider, for metrics.
type Stats struct {
	// Faults counts the faults that ended a connection or its set-up, by kind.
	Faults []Count
	// Devices describes the devices that are in use now. It is empty if the provider uses no devices.
	Devices []DeviceStats
	// Memory is the number of bytes that the messages of all connections take, and MemoryLimit
	// the largest number that they may take. MemoryLimit 0 means that there is no limit.
	Memory, MemoryLimit int64
}

// A Count is the number N of times that the event named What has happened.
type Count struct {
	What string
	N    uint64
}

// DeviceStats describes a device that is in use.
type DeviceStats struct {
	// Name is the kernel's name of the device, such as "mlx5_0". Protocol is as in Carrier.
	Name, Protocol string
	// Connections is the number of connections of the device, and MaxConnections the largest
	// number that the device allows.
	Connections, MaxConnections int
	// Registered is the size of the payload memory that is registered with the device, in bytes.
	Registered int64
	// Active is true if each port of the device that is in use carries traffic.
	Active bool
	// Events counts the device's asynchronous events, by their names.
	Events []Count
}
