"""GFC (O'Neil, Burtscher, GPGPU-4 2011): numbers of 4 or 8 bytes as differences without their leading zero bytes."""
