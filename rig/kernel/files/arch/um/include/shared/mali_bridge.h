/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hook of the Mali bridge (arch/um/drivers/mali_bridge.c) in phys_mapping().
 */
#ifndef __UM_MALI_BRIDGE_H
#define __UM_MALI_BRIDGE_H

#ifdef CONFIG_UML_MALI
/*
 * True where @phys lies in the one register page that user space may map
 * (LATEST_FLUSH_ID); @offset is then the offset, within the file that backs
 * physical memory, of the memory that stands in for it.
 */
bool mali_bridge_user_page(unsigned long phys, unsigned long long *offset);
#else
static inline bool mali_bridge_user_page(unsigned long phys,
					 unsigned long long *offset)
{
	return false;
}
#endif

#endif /* __UM_MALI_BRIDGE_H */
