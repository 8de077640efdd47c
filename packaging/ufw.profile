[nfsrdmad]
title=NFS server nfsrdmad
description=NFS over TCP, and over RDMA that iWARP carries in TCP
ports=2049/tcp|2049/udp|20049/tcp

[nfsrdmad TCP]
title=NFS server nfsrdmad, without RDMA and NFS version 3
description=NFS version 4 over TCP
ports=2049/tcp

[nfsrdmad rpcbind]
title=rpcbind, for showmount and the locks of NFS version 3
description=Port mapper that tells clients the ports of NFS services
ports=111
