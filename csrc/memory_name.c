/* Names of storages; finding a storage by its id or by an address in it. */
#include "memory_slab.h"

/* The slot for which is(slot, value) holds, or NULL. Lock held. Looks at every slot: for messages. */
static struct skeep_slot *slot_find(int (*is)(const struct skeep_slot *, uint64_t), uint64_t value) {
  struct skeep_slot *slots = (struct skeep_slot *)(uintptr_t)skeep_slab_base;
  for (uint64_t i = 0; i < skeep_slab_bytes / SKEEP_SLOT_BYTES; i++)
    if (is(&slots[i], value)) return &slots[i];
  return NULL;
}

/* Marks and pins have the id of their root, but no name. */
static int named(const struct skeep_slot *s, uint64_t id) { return s->id == id && s->name[0]; }
static int holds(const struct skeep_slot *s, uint64_t address) {
  return s->kind >= SKEEP_BORROWED && (s->generation & 1) && address - s->address < s->bytes;
}

uint64_t skeep_storage_at(uint64_t address) {
  skeep_slab_lock();
  const struct skeep_slot *root = slot_find(holds, address);
  const uint64_t id = root ? root->id : 0;
  skeep_slab_unlock();
  return id;
}

skeep_status skeep_storage_set_name(skeep_storage h, const char *name) {
  skeep_status st;
  size_t length = name ? strlen(name) : 0;
  const char *cut = "";
  if (length >= SKEEP_NAME_BYTES) { /* keep the end of a path, which says more than its beginning, from a whole UTF-8 character on */
    name += length - (SKEEP_NAME_BYTES - 4);
    while ((*name & 0xc0) == 0x80) name++;
    length = strlen(name);
    cut = "...";
  }
  skeep_slab_lock();
  struct skeep_slot *root = skeep_open_root(h, &st);
  if (root) {
    memcpy(root->name, cut, strlen(cut));
    if (length) memcpy(root->name + strlen(cut), name, length);
    root->name[strlen(cut) + length] = 0;
    st = skeep_ok();
  }
  skeep_slab_unlock();
  return st;
}

size_t skeep_storage_name(uint64_t id, char *text, size_t size) {
  skeep_slab_lock();
  const struct skeep_slot *root = slot_find(named, id);
  const size_t length = root ? strlen(root->name) : 0;
  if (text && size) {
    const size_t fits = length < size ? length : size - 1;
    if (fits) memcpy(text, root->name, fits);
    text[fits] = 0;
  }
  skeep_slab_unlock();
  return length;
}
